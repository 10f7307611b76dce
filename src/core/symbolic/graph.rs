//! Formulas as a graph: every value stands once, and what can be computed beforehand is.

use std::collections::HashMap;

/// The number of a node. A node's operands have smaller numbers than itself.
pub(super) type Id = u32;

/// The most nodes of a formula with both of its derivatives.
const MOST_NODES: usize = 1 << 14;

/// What a formula reads of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Input {
    Target,
    Score,
    /// A further column, by its place.
    Column(u16),
}

/// Functions of one number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Unary {
    Exp,
    Ln,
    /// `ln(1 + x)`
    Ln1p,
    /// `exp(x) - 1`
    Expm1,
    Sqrt,
    Abs,
    /// -1, 0 or 1.
    Sign,
    /// `1 / (1 + exp(-x))`
    Sigmoid,
    /// `ln(1 + exp(x))`
    Softplus,
    Tanh,
    /// 1 where it is 0, else 0.
    Not,
}

/// Functions of two numbers. A comparison is 1 where it holds, else 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Binary {
    Add,
    Multiply,
    Divide,
    Minimum,
    Maximum,
    Less,
    LessEqual,
    Equal,
    And,
    Or,
}

/// A value of a formula. A difference is a sum with -1 times what is taken off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Node {
    /// The bits of an f64.
    Number(u64),
    Input(Input),
    Unary(Unary, Id),
    Binary(Binary, Id, Id),
    /// To the power of a number, by its bits.
    Power(Id, u64),
    /// The second where the first is not 0, else the third.
    Select(Id, Id, Id),
}

impl Node {
    /// Returns the nodes that it is computed of.
    pub fn operands(self) -> impl Iterator<Item = Id> {
        let list = match self {
            Node::Number(_) | Node::Input(_) => [None; 3],
            Node::Unary(_, a) | Node::Power(a, _) => [Some(a), None, None],
            Node::Binary(_, a, b) => [Some(a), Some(b), None],
            Node::Select(a, b, c) => [Some(a), Some(b), Some(c)],
        };
        list.into_iter().flatten()
    }
}

/// Nodes, no two of them alike. Its methods give the number of what they are called by, as simple as they know it: sums and products
/// of numbers are numbers, factors that are numbers stand in front, and `ln(1 + exp(x))`, `exp(x) / (1 + exp(x))` and their like
/// become what neither overflows nor cancels.
#[derive(Clone, Debug, Default)]
pub(super) struct Graph {
    nodes: Vec<Node>,
    ids: HashMap<Node, Id>,
    /// Whether there were more nodes than [`MOST_NODES`].
    full: bool,
}

impl Graph {
    /// Returns a node.
    pub fn node(&self, id: Id) -> Node {
        self.nodes[id as usize]
    }

    /// Whether nodes are missing because there were too many.
    pub fn is_full(&self) -> bool {
        self.full
    }

    fn intern(&mut self, node: Node) -> Id {
        if let Some(id) = self.ids.get(&node) {
            return *id;
        }
        if self.nodes.len() >= MOST_NODES {
            self.full = true;
            return 0;
        }
        let id = self.nodes.len() as Id;
        self.nodes.push(node);
        self.ids.insert(node, id);
        id
    }

    /// Marks, by number, the nodes that some are computed of, themselves among them.
    pub fn reachable(&self, roots: &[Id]) -> Vec<bool> {
        let mut marks = vec![false; self.nodes.len()];
        roots.iter().for_each(|root| marks[*root as usize] = true);
        // Operands lie below, so that one pass downwards finds all.
        for id in (0..self.nodes.len()).rev() {
            if marks[id] {
                self.mark(id, &mut marks);
            }
        }
        marks
    }

    fn mark(&self, id: usize, marks: &mut [bool]) {
        self.nodes[id].operands().for_each(|operand| marks[operand as usize] = true);
    }

    /// Whether a value is computed of an input.
    pub fn depends_on(&self, root: Id, input: Input) -> bool {
        let marks = self.reachable(&[root]);
        (0..self.nodes.len()).any(|id| marks[id] && self.nodes[id] == Node::Input(input))
    }

    /// Returns the number that a node is, if it is one.
    pub fn as_number(&self, id: Id) -> Option<f64> {
        match self.node(id) {
            Node::Number(bits) => Some(f64::from_bits(bits)),
            _ => None,
        }
    }

    /// Returns the factor in front of a product and the rest of it: 1 and the node where there is none.
    pub fn factor(&self, id: Id) -> (f64, Id) {
        match self.node(id) {
            Node::Binary(Binary::Multiply, a, b) => self.as_number(a).map_or((1.0, id), |factor| (factor, b)),
            _ => (1.0, id),
        }
    }

    /// Returns what `exp` is taken of, where the node is such.
    fn exponent(&self, id: Id) -> Option<Id> {
        match self.node(id) {
            Node::Unary(Unary::Exp, x) => Some(x),
            _ => None,
        }
    }

    /// Returns `x` of `1 + exp(x)`.
    fn one_plus_exp(&self, id: Id) -> Option<Id> {
        match self.node(id) {
            Node::Binary(Binary::Add, a, b) if self.as_number(a) == Some(1.0) => self.exponent(b),
            _ => None,
        }
    }

    pub fn number(&mut self, x: f64) -> Id {
        self.intern(Node::Number((x + 0.0).to_bits()))
    }

    pub fn input(&mut self, input: Input) -> Id {
        self.intern(Node::Input(input))
    }

    pub fn negative(&mut self, a: Id) -> Id {
        self.scaled(-1.0, a)
    }

    /// A number times a value.
    pub fn scaled(&mut self, factor: f64, a: Id) -> Id {
        if let Some(x) = self.as_number(a) {
            return self.number(factor * x);
        }
        let (own, rest) = self.factor(a);
        match factor * own {
            1.0 => rest,
            0.0 => self.number(0.0),
            all => {
                let all = self.number(all);
                self.intern(Node::Binary(Binary::Multiply, all, rest))
            }
        }
    }

    pub fn add(&mut self, a: Id, b: Id) -> Id {
        let (a, b) = self.number_first(a, b);
        if let Some(x) = self.as_number(a) {
            if let Some(y) = self.as_number(b) {
                return self.number(x + y);
            }
            if x == 0.0 {
                return b;
            }
            if let Node::Binary(Binary::Add, c, rest) = self.node(b)
                && let Some(y) = self.as_number(c)
            {
                let sum = self.number(x + y);
                return self.add(sum, rest);
            }
            if let (-1.0, rest) = self.factor(b)
                && let Node::Unary(Unary::Sigmoid, z) = self.node(rest)
                && x == 1.0
            {
                let z = self.negative(z);
                return self.unary(Unary::Sigmoid, z);
            }
            return self.intern(Node::Binary(Binary::Add, a, b));
        }
        let ((p, x), (q, y)) = (self.factor(a), self.factor(b));
        if x == y {
            return self.scaled(p + q, x);
        }
        self.intern(Node::Binary(Binary::Add, a, b))
    }

    pub fn subtract(&mut self, a: Id, b: Id) -> Id {
        let b = self.negative(b);
        self.add(a, b)
    }

    pub fn multiply(&mut self, a: Id, b: Id) -> Id {
        if let Some(x) = self.as_number(a) {
            return self.scaled(x, b);
        }
        if let Some(x) = self.as_number(b) {
            return self.scaled(x, a);
        }
        let ((p, x), (q, y)) = (self.factor(a), self.factor(b));
        let (x, y) = (x.min(y), x.max(y));
        let product = match (self.node(x), self.node(y)) {
            // |x| |x|
            (Node::Unary(Unary::Abs, z), _) if x == y => self.intern(Node::Binary(Binary::Multiply, z, z)),
            _ => self.intern(Node::Binary(Binary::Multiply, x, y)),
        };
        self.scaled(p * q, product)
    }

    pub fn divide(&mut self, a: Id, b: Id) -> Id {
        if let Some(y) = self.as_number(b)
            && y != 0.0
        {
            return self.scaled(1.0 / y, a);
        }
        if self.as_number(a) == Some(0.0) {
            return a;
        }
        let (q, y) = self.factor(b);
        if q != 1.0 {
            let quotient = self.divide(a, y);
            return self.scaled(1.0 / q, quotient);
        }
        let (p, x) = match self.as_number(a) {
            Some(p) => (p, self.number(1.0)),
            None => self.factor(a),
        };
        let quotient = self.plain_quotient(x, y);
        self.scaled(p, quotient)
    }

    /// A quotient of values without factors in front.
    fn plain_quotient(&mut self, x: Id, y: Id) -> Id {
        if x == y {
            return self.number(1.0);
        }
        if let Some(z) = self.exponent(y) {
            let z = self.negative(z);
            let inverse = self.unary(Unary::Exp, z);
            return self.multiply(x, inverse);
        }
        if let Some(z) = self.one_plus_exp(y) {
            if self.exponent(x) == Some(z) {
                return self.unary(Unary::Sigmoid, z);
            }
            if let Node::Binary(Binary::Multiply, a, b) = self.node(x) {
                let rest = [(a, b), (b, a)].into_iter().find(|(e, _)| self.exponent(*e) == Some(z));
                if let Some((_, rest)) = rest {
                    let share = self.unary(Unary::Sigmoid, z);
                    return self.multiply(rest, share);
                }
            }
            let z = self.negative(z);
            let share = self.unary(Unary::Sigmoid, z);
            return self.multiply(x, share);
        }
        self.intern(Node::Binary(Binary::Divide, x, y))
    }

    pub fn unary(&mut self, function: Unary, a: Id) -> Id {
        if let Some(x) = self.as_number(a) {
            let value = of_number(function, x);
            if value.is_finite() {
                return self.number(value);
            }
        }
        match (function, self.node(a)) {
            (Unary::Ln, Node::Unary(Unary::Exp, x)) => return x,
            (Unary::Ln1p, Node::Unary(Unary::Exp, x)) => return self.unary(Unary::Softplus, x),
            (Unary::Ln, Node::Unary(Unary::Sigmoid, x)) => {
                let x = self.negative(x);
                let part = self.unary(Unary::Softplus, x);
                return self.negative(part);
            }
            (Unary::Ln, _) => {
                if let Some(x) = self.one_plus_exp(a) {
                    return self.unary(Unary::Softplus, x);
                }
            }
            (Unary::Abs, Node::Unary(Unary::Exp | Unary::Sqrt | Unary::Abs | Unary::Sigmoid | Unary::Softplus, _)) => return a,
            (Unary::Abs | Unary::Sign, _) => {
                let (factor, rest) = self.factor(a);
                if factor != 1.0 {
                    let own = self.unary(function, rest);
                    return self.scaled(of_number(function, factor), own);
                }
            }
            _ => {}
        }
        self.intern(Node::Unary(function, a))
    }

    /// Computes what is neither a sum, a product nor a quotient of two values.
    pub fn binary(&mut self, function: Binary, a: Id, b: Id) -> Id {
        match function {
            Binary::Add => return self.add(a, b),
            Binary::Multiply => return self.multiply(a, b),
            Binary::Divide => return self.divide(a, b),
            Binary::Minimum | Binary::Maximum if a == b => return a,
            _ => {}
        }
        if let (Some(x), Some(y)) = (self.as_number(a), self.as_number(b)) {
            return self.number(of_numbers(function, x, y));
        }
        self.intern(Node::Binary(function, a, b))
    }

    pub fn select(&mut self, condition: Id, a: Id, b: Id) -> Id {
        match self.as_number(condition) {
            Some(x) => return if x != 0.0 { a } else { b },
            None if a == b => return a,
            None => {}
        }
        self.intern(Node::Select(condition, a, b))
    }

    /// A value to the power of a number: by multiplications and roots where the number is whole or halfway and not large.
    pub fn power(&mut self, a: Id, exponent: f64) -> Id {
        const MOST_FACTORS: f64 = 64.0;
        if let Some(x) = self.exponent(a) {
            let x = self.scaled(exponent, x);
            return self.unary(Unary::Exp, x);
        }
        if exponent < 0.0 {
            let below = self.power(a, -exponent);
            let one = self.number(1.0);
            return self.divide(one, below);
        }
        if exponent <= MOST_FACTORS && exponent == exponent.trunc() {
            return self.whole_power(a, exponent as u32);
        }
        if exponent <= MOST_FACTORS && exponent - exponent.trunc() == 0.5 {
            let (whole, root) = (self.whole_power(a, exponent as u32), self.unary(Unary::Sqrt, a));
            return self.multiply(whole, root);
        }
        match self.as_number(a).map(|x| libm::pow(x, exponent)).filter(|x| x.is_finite()) {
            Some(x) => self.number(x),
            None => self.intern(Node::Power(a, exponent.to_bits())),
        }
    }

    fn whole_power(&mut self, a: Id, exponent: u32) -> Id {
        match exponent {
            0 => self.number(1.0),
            1 => a,
            n if n % 2 == 1 => {
                let rest = self.whole_power(a, n - 1);
                self.multiply(rest, a)
            }
            n => {
                let half = self.whole_power(a, n / 2);
                self.multiply(half, half)
            }
        }
    }

    /// Operands of what may be turned round: a number first, else by their numbers.
    fn number_first(&self, a: Id, b: Id) -> (Id, Id) {
        let key = |id: Id| (self.as_number(id).is_none(), id);
        if key(a) <= key(b) { (a, b) } else { (b, a) }
    }

    /// What is sure of a value's sign: by number of node, whether it is nowhere negative and whether it is nowhere positive.
    fn signs(&self) -> Vec<(bool, bool)> {
        let mut signs: Vec<(bool, bool)> = Vec::with_capacity(self.nodes.len());
        for node in &self.nodes {
            let of = |id: Id| signs[id as usize];
            signs.push(match *node {
                Node::Number(bits) => (f64::from_bits(bits) >= 0.0, f64::from_bits(bits) <= 0.0),
                Node::Input(_) => (false, false),
                Node::Unary(Unary::Exp | Unary::Sqrt | Unary::Abs | Unary::Sigmoid | Unary::Softplus | Unary::Not, _) => (true, false),
                Node::Unary(Unary::Ln, _) => (false, false),
                Node::Unary(Unary::Ln1p | Unary::Expm1 | Unary::Sign | Unary::Tanh, a) => of(a),
                Node::Binary(Binary::Add, a, b) => (of(a).0 && of(b).0, of(a).1 && of(b).1),
                Node::Binary(Binary::Multiply, a, b) if a == b => (true, false),
                Node::Binary(Binary::Multiply | Binary::Divide, a, b) => {
                    let (a, b) = (of(a), of(b));
                    ((a.0 && b.0) || (a.1 && b.1), (a.0 && b.1) || (a.1 && b.0))
                }
                Node::Binary(Binary::Minimum, a, b) => (of(a).0 && of(b).0, of(a).1 || of(b).1),
                Node::Binary(Binary::Maximum, a, b) => (of(a).0 || of(b).0, of(a).1 && of(b).1),
                Node::Binary(..) => (true, false),
                Node::Power(..) => (true, false),
                Node::Select(_, a, b) => (of(a).0 && of(b).0, of(a).1 && of(b).1),
            });
        }
        signs
    }

    /// Whether a value is nowhere above 0, as far as its parts tell.
    pub fn is_never_positive(&self, id: Id) -> bool {
        self.signs()[id as usize].1
    }

    /// Whether a node is `target - score` or `score - target`.
    pub fn is_difference(&self, id: Id) -> bool {
        let Node::Binary(Binary::Add, a, b) = self.node(id) else { return false };
        let plain = |id: Id, input: Input| self.node(id) == Node::Input(input);
        let negative = |id: Id, input: Input| matches!(self.factor(id), (-1.0, rest) if plain(rest, input));
        let is =
            |a: Id, b: Id| (plain(a, Input::Target) && negative(b, Input::Score)) || (plain(a, Input::Score) && negative(b, Input::Target));
        is(a, b) || is(b, a)
    }

    /// Whether some values read the target and the score by their difference alone.
    pub fn reads_differences_alone(&self, roots: &[Id]) -> bool {
        let mut marks = vec![false; self.nodes.len()];
        roots.iter().for_each(|root| marks[*root as usize] = true);
        for id in (0..self.nodes.len()).rev().filter(|id| !self.is_difference(*id as Id)) {
            if marks[id] {
                self.mark(id, &mut marks);
            }
        }
        (0..marks.len()).all(|id| !marks[id] || !matches!(self.nodes[id], Node::Input(Input::Target | Input::Score)))
    }

    /// Returns the derivative of a value with respect to the score, by the chain rule from the inputs on. Where a function has a kink,
    /// it is that of one side, or 0.
    pub fn derivative(&mut self, root: Id) -> Id {
        let marks = self.reachable(&[root]);
        let zero = self.number(0.0);
        let mut derivatives = vec![zero; root as usize + 1];
        for id in (0..=root).filter(|id| marks[*id as usize]) {
            let of = |id: Id| derivatives[id as usize];
            let is_constant = self.node(id).operands().all(|operand| of(operand) == zero);
            let derivative = match self.node(id) {
                Node::Input(Input::Score) => self.number(1.0),
                _ if is_constant => zero,
                Node::Number(_) | Node::Input(_) => zero,
                Node::Unary(function, a) => {
                    let slope = self.slope(function, a, id);
                    self.multiply(slope, of(a))
                }
                Node::Power(a, bits) => {
                    let exponent = f64::from_bits(bits);
                    let lower = self.power(a, exponent - 1.0);
                    let inner = self.multiply(lower, of(a));
                    self.scaled(exponent, inner)
                }
                Node::Binary(Binary::Add, a, b) => self.add(of(a), of(b)),
                Node::Binary(Binary::Multiply, a, b) => {
                    let (left, right) = (self.multiply(of(a), b), self.multiply(a, of(b)));
                    self.add(left, right)
                }
                Node::Binary(Binary::Divide, a, b) => {
                    // (a' - (a / b) b') / b
                    let inner = self.multiply(id, of(b));
                    let above = self.subtract(of(a), inner);
                    self.divide(above, b)
                }
                Node::Binary(function @ (Binary::Minimum | Binary::Maximum), a, b) => {
                    let (a_first, b_first) = if function == Binary::Minimum { (b, a) } else { (a, b) };
                    // The second operand is taken where it is strictly smaller (or larger).
                    let second = self.binary(Binary::Less, a_first, b_first);
                    self.select(second, of(b), of(a))
                }
                Node::Binary(..) => zero,
                Node::Select(condition, a, b) => self.select(condition, of(a), of(b)),
            };
            derivatives[id as usize] = derivative;
        }
        derivatives[root as usize]
    }

    /// The derivative of a function at `a`, where it is node `value`.
    fn slope(&mut self, function: Unary, a: Id, value: Id) -> Id {
        match function {
            Unary::Exp => value,
            Unary::Ln => {
                let one = self.number(1.0);
                self.divide(one, a)
            }
            Unary::Ln1p => {
                let one = self.number(1.0);
                let below = self.add(one, a);
                self.divide(one, below)
            }
            Unary::Expm1 => self.unary(Unary::Exp, a),
            Unary::Sqrt => {
                let half = self.number(0.5);
                self.divide(half, value)
            }
            Unary::Abs => self.unary(Unary::Sign, a),
            Unary::Sign | Unary::Not => self.number(0.0),
            Unary::Sigmoid => {
                let minus = self.negative(a);
                let other = self.unary(Unary::Sigmoid, minus);
                self.multiply(value, other)
            }
            Unary::Softplus => self.unary(Unary::Sigmoid, a),
            Unary::Tanh => {
                // 1 - tanh² = 4 sigmoid(2x) sigmoid(-2x), which keeps its digits where it is small.
                let (up, down) = (self.scaled(2.0, a), self.scaled(-2.0, a));
                let (up, down) = (self.unary(Unary::Sigmoid, up), self.unary(Unary::Sigmoid, down));
                let product = self.multiply(up, down);
                self.scaled(4.0, product)
            }
        }
    }
}

/// A function of a number, in f64.
pub(super) fn of_number(function: Unary, x: f64) -> f64 {
    match function {
        Unary::Exp => libm::exp(x),
        Unary::Ln => libm::log(x),
        Unary::Ln1p => libm::log1p(x),
        Unary::Expm1 => libm::expm1(x),
        Unary::Sqrt => libm::sqrt(x),
        Unary::Abs => x.abs(),
        Unary::Sign => f64::from(x > 0.0) - f64::from(x < 0.0),
        Unary::Sigmoid => 1.0 / (1.0 + libm::exp(-x)),
        Unary::Softplus => libm::log1p(libm::exp(-x.abs())) + if x > 0.0 { x } else { 0.0 },
        Unary::Tanh => libm::tanh(x),
        Unary::Not => f64::from(x == 0.0),
    }
}

/// A function of two numbers, in f64.
pub(super) fn of_numbers(function: Binary, x: f64, y: f64) -> f64 {
    match function {
        Binary::Add => x + y,
        Binary::Multiply => x * y,
        Binary::Divide => x / y,
        Binary::Minimum => {
            if y < x {
                y
            } else {
                x
            }
        }
        Binary::Maximum => {
            if y > x {
                y
            } else {
                x
            }
        }
        Binary::Less => f64::from(x < y),
        Binary::LessEqual => f64::from(x <= y),
        Binary::Equal => f64::from(x == y),
        Binary::And => f64::from(x != 0.0 && y != 0.0),
        Binary::Or => f64::from(x != 0.0 || y != 0.0),
    }
}
