//! Formulas from text, as Python would read it.
//!
//! ```text
//! formula    [name = expression ;]… expression
//! expression numbers, names, ( ), + - * / **, < <= > >= == !=, & | ~, functions,
//!            when(condition).then(a)[.when(condition).then(b)]….otherwise(c)
//! names      y the target, f the raw score (of metrics p the prediction), what stands before a =, and columns: in backticks, or as they are
//! ```

use super::SCORE;
use super::graph::{Binary, Graph, Id, Input, Unary};

/// The longest text of a formula, in bytes.
pub(super) const LONGEST_TEXT: usize = 1 << 14;

/// How many brackets may stand one in another.
const DEEPEST: u32 = 100;

/// The most columns of a formula.
pub const MOST_COLUMNS: usize = 16;

/// Functions of one value by their names.
const FUNCTIONS: [(&str, Unary); 10] = [
    ("exp", Unary::Exp),
    ("log", Unary::Ln),
    ("log1p", Unary::Ln1p),
    ("expm1", Unary::Expm1),
    ("sqrt", Unary::Sqrt),
    ("abs", Unary::Abs),
    ("sign", Unary::Sign),
    ("sigmoid", Unary::Sigmoid),
    ("softplus", Unary::Softplus),
    ("tanh", Unary::Tanh),
];

#[derive(Clone, Debug, PartialEq)]
enum Token {
    Number(f64),
    Name(String),
    /// In backticks: a column whatever it is called.
    Column(String),
    Sign(&'static str),
    End,
}

/// The signs, longer ones before those that they begin with.
const SIGNS: [&str; 20] = ["**", "<=", ">=", "==", "!=", "<", ">", "=", "+", "-", "*", "/", "(", ")", ",", ";", ".", "&", "|", "~"];

/// A value, and whether it is a condition.
#[derive(Clone, Copy)]
struct Value {
    id: Id,
    is_condition: bool,
}

impl Value {
    fn number(id: Id) -> Self {
        Value { id, is_condition: false }
    }

    fn condition(id: Id) -> Self {
        Value { id, is_condition: true }
    }
}

/// Reads a formula into a graph and returns its value; columns that it names stand behind those in `columns`. `score`: what it calls
/// the score or prediction.
///
/// # Errors
/// What is wrong with the text, and where.
pub(super) fn parse(text: &str, score: &'static str, graph: &mut Graph, columns: &mut Vec<String>) -> Result<Id, String> {
    let value = read(text, score, graph, columns)?;
    if value.is_condition {
        return Err("it is a condition, and no number: take when(condition).then(a).otherwise(b)".into());
    }
    Ok(value.id)
}

/// Reads a formula of which a mean is taken, as [`parse`] does; a condition is 1 or 0.
pub(super) fn parse_mean(text: &str, score: &'static str, graph: &mut Graph, columns: &mut Vec<String>) -> Result<Id, String> {
    Ok(read(text, score, graph, columns)?.id)
}

fn read(text: &str, score: &'static str, graph: &mut Graph, columns: &mut Vec<String>) -> Result<Value, String> {
    if text.len() > LONGEST_TEXT {
        return Err(format!("its formula has {} bytes, {LONGEST_TEXT} are the most", text.len()));
    }
    let tokens = tokens(text)?;
    Parser { tokens, at: 0, score, graph, columns, named: vec![], depth: 0 }.formula()
}

/// Cuts a text into tokens, each with its place.
fn tokens(text: &str) -> Result<Vec<(usize, Token)>, String> {
    let bytes = text.as_bytes();
    let (mut tokens, mut at) = (vec![], 0);
    while at < bytes.len() {
        let (start, rest) = (at, &text[at..]);
        let of = |is: fn(u8) -> bool| rest.bytes().take_while(|b| is(*b)).count();
        let token = match bytes[at] {
            b' ' | b'\t' | b'\n' | b'\r' => {
                at += 1;
                continue;
            }
            b'0'..=b'9' => {
                let length = number_length(rest.as_bytes());
                let number: f64 = rest[..length].parse().map_err(|_| format!("{:?} is no number", &rest[..length]))?;
                if !number.is_finite() {
                    return Err(format!("{} is more than a number holds", &rest[..length]));
                }
                at += length;
                Token::Number(number)
            }
            b'a'..=b'z' | b'A'..=b'Z' | b'_' => {
                let length = of(|b| b.is_ascii_alphanumeric() || b == b'_');
                at += length;
                Token::Name(rest[..length].into())
            }
            b'`' => {
                let length = rest[1..].find('`').ok_or_else(|| format!("the backtick at character {} has no end", start + 1))?;
                at += length + 2;
                Token::Column(rest[1..=length].into())
            }
            _ => {
                let sign = SIGNS.into_iter().find(|sign| rest.starts_with(sign));
                let sign = sign.ok_or_else(|| {
                    format!("{:?} at character {} has no meaning here", rest.chars().next().unwrap_or_default(), start + 1)
                })?;
                at += sign.len();
                Token::Sign(sign)
            }
        };
        tokens.push((start, token));
    }
    tokens.push((text.len(), Token::End));
    Ok(tokens)
}

/// The length of the number that a text begins with.
fn number_length(text: &[u8]) -> usize {
    let digits = |from: usize| text[from.min(text.len())..].iter().take_while(|b| b.is_ascii_digit()).count();
    let mut length = digits(0);
    if text.get(length) == Some(&b'.') {
        length += 1 + digits(length + 1);
    }
    if matches!(text.get(length), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(text.get(length + 1), Some(b'+' | b'-')));
        let exponent = digits(length + 1 + sign);
        if exponent > 0 {
            length += 1 + sign + exponent;
        }
    }
    length
}

struct Parser<'a> {
    tokens: Vec<(usize, Token)>,
    at: usize,
    /// What the formula calls the score.
    score: &'static str,
    graph: &'a mut Graph,
    columns: &'a mut Vec<String>,
    /// What stands before a =.
    named: Vec<(String, Value)>,
    depth: u32,
}

type Parsed<T> = Result<T, String>;

impl Parser<'_> {
    fn peek(&self) -> &Token {
        &self.tokens[self.at].1
    }

    fn next(&mut self) -> Token {
        let token = self.peek().clone();
        self.at = (self.at + 1).min(self.tokens.len() - 1);
        token
    }

    /// Returns what a formula reads by a name of its own.
    fn input(&self, name: &str) -> Option<Input> {
        match name {
            "y" => Some(Input::Target),
            _ => (name == self.score).then_some(Input::Score),
        }
    }

    fn takes(&mut self, sign: &str) -> bool {
        let is = matches!(self.peek(), Token::Sign(s) if *s == sign);
        if is {
            self.next();
        }
        is
    }

    fn expect(&mut self, sign: &str) -> Parsed<()> {
        if self.takes(sign) { Ok(()) } else { Err(self.fault(&format!("{sign:?} is missing"))) }
    }

    fn expect_name(&mut self, name: &str) -> Parsed<()> {
        match self.next() {
            Token::Name(found) if found == name => Ok(()),
            _ => Err(format!("`.{name}(…)` is missing behind `when(…)`: when(condition).then(a).otherwise(b)")),
        }
    }

    /// An error that names the place.
    fn fault(&self, what: &str) -> String {
        let (at, token) = &self.tokens[self.at];
        match token {
            Token::End => format!("{what} at the end of the formula"),
            Token::Number(x) => format!("{what} before {x} at character {}", at + 1),
            Token::Name(name) | Token::Column(name) => format!("{what} before `{name}` at character {}", at + 1),
            Token::Sign(sign) => format!("{what} before {sign:?} at character {}", at + 1),
        }
    }

    fn expect_condition(&self, value: Value, by: &str) -> Parsed<Id> {
        if value.is_condition { Ok(value.id) } else { Err(format!("{by} needs conditions, as y > f, and is given a number")) }
    }

    fn formula(&mut self) -> Parsed<Value> {
        loop {
            let is_named = matches!(self.peek(), Token::Name(_)) && matches!(self.tokens.get(self.at + 1), Some((_, Token::Sign("="))));
            if !is_named {
                let value = self.expression()?;
                return match self.peek() {
                    Token::End => Ok(value),
                    _ => Err(self.fault("an operator is missing")),
                };
            }
            if let Token::Name(name) = self.next() {
                self.next();
                if self.input(&name).is_some() || self.named.iter().any(|(other, _)| *other == name) {
                    return Err(format!("`{name}` is given a second meaning"));
                }
                let value = self.expression()?;
                self.expect(";")?;
                self.named.push((name, value));
            }
        }
    }

    fn expression(&mut self) -> Parsed<Value> {
        if self.depth >= DEEPEST {
            return Err(format!("more than {DEEPEST} brackets stand one in another"));
        }
        self.depth += 1;
        let value = self.comparison();
        self.depth -= 1;
        value
    }

    fn comparison(&mut self) -> Parsed<Value> {
        let left = self.either()?;
        let Token::Sign(sign) = *self.peek() else { return Ok(left) };
        if !["<", "<=", ">", ">=", "==", "!="].contains(&sign) {
            return Ok(left);
        }
        self.next();
        let right = self.either()?;
        if matches!(self.peek(), Token::Sign("<" | "<=" | ">" | ">=" | "==" | "!=")) {
            return Err(self.fault("a chain of comparisons is to be written as (a < b) & (b < c)"));
        }
        let (a, b) = (left.id, right.id);
        Ok(Value::condition(match sign {
            "<" => self.graph.binary(Binary::Less, a, b),
            "<=" => self.graph.binary(Binary::LessEqual, a, b),
            ">" => self.graph.binary(Binary::Less, b, a),
            ">=" => self.graph.binary(Binary::LessEqual, b, a),
            "==" => self.graph.binary(Binary::Equal, a, b),
            _ => {
                let equal = self.graph.binary(Binary::Equal, a, b);
                self.graph.unary(Unary::Not, equal)
            }
        }))
    }

    fn either(&mut self) -> Parsed<Value> {
        let mut left = self.both()?;
        while self.takes("|") {
            let right = self.both()?;
            let (a, b) = (self.expect_condition(left, "|")?, self.expect_condition(right, "|")?);
            left = Value::condition(self.graph.binary(Binary::Or, a, b));
        }
        Ok(left)
    }

    fn both(&mut self) -> Parsed<Value> {
        let mut left = self.sum()?;
        while self.takes("&") {
            let right = self.sum()?;
            let (a, b) = (self.expect_condition(left, "&")?, self.expect_condition(right, "&")?);
            left = Value::condition(self.graph.binary(Binary::And, a, b));
        }
        Ok(left)
    }

    fn sum(&mut self) -> Parsed<Value> {
        let mut left = self.product()?;
        loop {
            let subtracts = matches!(self.peek(), Token::Sign("-"));
            if !subtracts && !matches!(self.peek(), Token::Sign("+")) {
                return Ok(left);
            }
            self.next();
            let right = self.product()?;
            let id = if subtracts { self.graph.subtract(left.id, right.id) } else { self.graph.add(left.id, right.id) };
            left = Value::number(id);
        }
    }

    fn product(&mut self) -> Parsed<Value> {
        let mut left = self.signed()?;
        loop {
            let divides = matches!(self.peek(), Token::Sign("/"));
            if !divides && !matches!(self.peek(), Token::Sign("*")) {
                return Ok(left);
            }
            self.next();
            let right = self.signed()?;
            if divides && self.graph.as_number(right.id) == Some(0.0) {
                return Err(self.fault("a number is divided by 0"));
            }
            let id = if divides { self.graph.divide(left.id, right.id) } else { self.graph.multiply(left.id, right.id) };
            left = Value::number(id);
        }
    }

    /// Signs before a value, of which there may be several.
    fn signed(&mut self) -> Parsed<Value> {
        let (mut negative, mut is_signed, mut negations) = (false, false, 0);
        loop {
            match self.peek() {
                Token::Sign("-") => (negative, is_signed) = (!negative, true),
                Token::Sign("+") => is_signed = true,
                Token::Sign("~") if !is_signed => negations += 1,
                _ => break,
            }
            self.next();
        }
        let value = self.power()?;
        if negations > 0 {
            let condition = self.expect_condition(value, "~")?;
            let id = if negations % 2 == 1 { self.graph.unary(Unary::Not, condition) } else { condition };
            return Ok(Value::condition(id));
        }
        if !is_signed {
            return Ok(value);
        }
        Ok(Value::number(if negative { self.graph.negative(value.id) } else { value.id }))
    }

    fn power(&mut self) -> Parsed<Value> {
        let base = self.atom()?;
        if !self.takes("**") {
            return Ok(base);
        }
        if self.depth >= DEEPEST {
            return Err(format!("more than {DEEPEST} brackets stand one in another"));
        }
        self.depth += 1;
        let exponent = self.signed();
        self.depth -= 1;
        let exponent = exponent?;
        if let Some(exponent) = self.graph.as_number(exponent.id) {
            return Ok(Value::number(self.graph.power(base.id, exponent)));
        }
        match self.graph.as_number(base.id) {
            Some(number) if number > 0.0 => {
                let product = self.graph.scaled(libm::log(number), exponent.id);
                Ok(Value::number(self.graph.unary(Unary::Exp, product)))
            }
            _ => Err("an exponent is to be a number; a ** b of two variables is exp(b * log(a))".into()),
        }
    }

    fn atom(&mut self) -> Parsed<Value> {
        match self.peek().clone() {
            Token::Number(x) => {
                self.next();
                Ok(Value::number(self.graph.number(x)))
            }
            Token::Column(name) => {
                self.next();
                self.column(name)
            }
            Token::Name(name) => {
                self.next();
                if self.takes("(") { self.call(&name) } else { self.name(name) }
            }
            Token::Sign("(") => {
                self.next();
                let value = self.expression()?;
                self.expect(")")?;
                Ok(value)
            }
            _ => Err(self.fault("a value is missing")),
        }
    }

    fn name(&mut self, name: String) -> Parsed<Value> {
        if let Some(input) = self.input(&name) {
            return Ok(Value::number(self.graph.input(input)));
        }
        if let Some((_, value)) = self.named.iter().find(|(other, _)| *other == name) {
            return Ok(*value);
        }
        let known = self.columns.contains(&name);
        if known {
            self.column(name)
        } else {
            let score = if self.score == SCORE { "f (the raw score)" } else { "p (the prediction)" };
            Err(format!("`{name}` is no name here; there are y (the target), {score} and columns in backticks"))
        }
    }

    fn column(&mut self, name: String) -> Parsed<Value> {
        let place = match self.columns.iter().position(|other| *other == name) {
            Some(place) => place,
            None if self.columns.len() >= MOST_COLUMNS => return Err(format!("it reads more than {MOST_COLUMNS} columns")),
            None => {
                self.columns.push(name);
                self.columns.len() - 1
            }
        };
        Ok(Value::number(self.graph.input(Input::Column(place as u16))))
    }

    fn call(&mut self, function: &str) -> Parsed<Value> {
        if function == "when" {
            return self.choice();
        }
        let arguments = self.arguments()?;
        if let Some((_, unary)) = FUNCTIONS.iter().find(|(name, _)| *name == function) {
            return match arguments[..] {
                [a] => Ok(Value::number(self.graph.unary(*unary, a.id))),
                _ => Err(format!("`{function}` takes one value and is given {}", arguments.len())),
            };
        }
        let binary = match function {
            "min" => Binary::Minimum,
            "max" => Binary::Maximum,
            _ => {
                let names: Vec<&str> = FUNCTIONS.iter().map(|(name, _)| *name).collect();
                return Err(format!("there is no function `{function}`; there are {}, min, max and when", names.join(", ")));
            }
        };
        match arguments[..] {
            [a, b] => Ok(Value::number(self.graph.binary(binary, a.id, b.id))),
            _ => Err(format!("`{function}` takes two values and is given {}", arguments.len())),
        }
    }

    /// Values with commas between them up to the closing bracket.
    fn arguments(&mut self) -> Parsed<Vec<Value>> {
        let mut values = vec![];
        if self.takes(")") {
            return Ok(values);
        }
        loop {
            values.push(self.expression()?);
            if self.takes(")") {
                return Ok(values);
            }
            self.expect(",")?;
        }
    }

    /// What stands behind `when(`.
    fn choice(&mut self) -> Parsed<Value> {
        let mut branches = vec![];
        loop {
            let condition = self.expression()?;
            let condition = self.expect_condition(condition, "when")?;
            self.expect(")")?;
            self.expect(".")?;
            self.expect_name("then")?;
            self.expect("(")?;
            branches.push((condition, self.expression()?.id));
            self.expect(")")?;
            self.expect(".")?;
            if matches!(self.peek(), Token::Name(name) if name == "when") {
                self.next();
                self.expect("(")?;
                continue;
            }
            self.expect_name("otherwise")?;
            self.expect("(")?;
            let otherwise = self.expression()?.id;
            self.expect(")")?;
            let choose = |rest, (condition, value): &(Id, Id)| self.graph.select(*condition, *value, rest);
            return Ok(Value::number(branches.iter().rev().fold(otherwise, choose)));
        }
    }
}
