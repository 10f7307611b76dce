//! Values of a graph as a list of instructions on registers, which the CPU runs tile after tile ([`super::run`]) and a GPU row by row
//! (`kernels/numerics/program.cuh`).

use super::graph::{Binary, Graph, Id, Input, Node, Unary};
use std::collections::{HashMap, HashSet};

/// The most instructions of a program.
const MOST_INSTRUCTIONS: usize = 4096;

/// The most registers of a program.
pub const MOST_REGISTERS: usize = 128;

/// What an instruction computes of its operands, by the number that kernels know it by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Op {
    Add = 0,
    Subtract = 1,
    Multiply = 2,
    Divide = 3,
    /// The second where it is less than the first, else the first.
    Minimum = 4,
    /// The second where it is more than the first, else the first.
    Maximum = 5,
    /// Comparisons are 1 where they hold, else 0.
    Less = 6,
    LessEqual = 7,
    Equal = 8,
    And = 9,
    Or = 10,
    Not = 11,
    /// The second where the first is not 0, else the third.
    Select = 12,
    Negative = 13,
    Abs = 14,
    Sign = 15,
    Sqrt = 16,
    Exp = 17,
    Ln = 18,
    Sigmoid = 19,
    Tanh = 20,
}

/// Where an operand stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operand {
    Register(u16),
    /// The target, the score, and further columns from 2 on.
    Input(u16),
    Constant(u16),
}

impl Operand {
    /// Returns it as kernels read it: its kind in the two highest of 16 bits, and its place.
    fn word(self) -> u32 {
        match self {
            Operand::Register(place) => u32::from(place),
            Operand::Input(place) => 1 << 14 | u32::from(place),
            Operand::Constant(place) => 2 << 14 | u32::from(place),
        }
    }
}

/// One step: a register becomes what `op` makes of the operands, of which it may read fewer than three.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Instruction {
    pub op: Op,
    /// A register that none of the operands stands in.
    pub out: u16,
    pub operands: [Operand; 3],
}

/// Instructions in their order, and where their results are found.
#[derive(Clone, Debug, PartialEq)]
pub struct Program {
    pub instructions: Vec<Instruction>,
    pub constants: Vec<f64>,
    /// The registers that it uses.
    pub registers: usize,
    pub outputs: Vec<Operand>,
}

impl Program {
    /// Lists what computes values of a graph. `unit`: rows have target and score in units of this; it is for values that read their
    /// difference alone.
    ///
    /// # Errors
    /// For formulas with too many steps.
    pub(super) fn new(graph: &Graph, roots: &[Id], unit: Option<f64>) -> Result<Program, String> {
        let mut lowering = Lowering {
            graph,
            unit,
            steps: vec![],
            known: HashMap::new(),
            constants: vec![],
            places: HashMap::new(),
            exponentials: HashMap::new(),
        };
        let mut values: HashMap<Id, Operand> = HashMap::new();
        let order = lowering.order(roots);
        lowering.count_exponentials(&order);
        for id in order {
            let value = lowering.lower(id, &values);
            values.insert(id, value);
            if lowering.steps.len() > MOST_INSTRUCTIONS {
                return Err(format!("its derivatives take more than {MOST_INSTRUCTIONS} operations a row"));
            }
        }
        let outputs = roots.iter().map(|root| values[root]).collect();
        let Lowering { steps, constants, .. } = lowering;
        let (steps, outputs) = read_alone(steps, outputs);
        assign(steps, outputs, constants)
    }

    /// Returns the instructions as kernels read them, two words each: number, register and first operand; second and third. Behind the
    /// last there is one of zeros, since kernels read one ahead.
    pub fn words(&self) -> Vec<u32> {
        let words = |i: &Instruction| {
            let [a, b, c] = i.operands.map(Operand::word);
            [i.op as u32 | u32::from(i.out) << 8 | a << 16, b | c << 16]
        };
        self.instructions.iter().flat_map(words).chain([0, 0]).collect()
    }

    /// Returns where the outputs stand, as kernels read it.
    pub fn output_words(&self) -> Vec<u32> {
        self.outputs.iter().map(|output| output.word()).collect()
    }
}

/// A step before registers are given: its result is called by its number.
type Step = (Op, [Operand; 3]);

struct Lowering<'a> {
    graph: &'a Graph,
    unit: Option<f64>,
    steps: Vec<Step>,
    known: HashMap<Step, Operand>,
    constants: Vec<f64>,
    places: HashMap<u64, u16>,
    /// How many sigmoids and softplus read `exp(-|x|)`, by `x`.
    exponentials: HashMap<(u64, Id), usize>,
}

impl Lowering<'_> {
    /// The nodes that values are computed of, operands first, each close to where it is first read.
    fn order(&self, roots: &[Id]) -> Vec<Id> {
        let (mut order, mut seen) = (vec![], HashSet::new());
        let mut open: Vec<(Id, bool)> = roots.iter().rev().map(|root| (*root, false)).collect();
        while let Some((id, is_ready)) = open.pop() {
            if is_ready {
                order.push(id);
            } else if seen.insert(id) {
                open.push((id, true));
                let below: Vec<Id> = if self.graph.is_difference(id) { vec![] } else { self.graph.node(id).operands().collect() };
                open.extend(below.into_iter().rev().map(|operand| (operand, false)));
            }
        }
        order
    }

    /// Returns what has the same absolute value as a node: the size of its factor, and the rest.
    fn size(&self, id: Id) -> (u64, Id) {
        let (factor, rest) = self.graph.factor(id);
        (factor.abs().to_bits(), rest)
    }

    fn count_exponentials(&mut self, order: &[Id]) {
        for id in order {
            if let Node::Unary(Unary::Sigmoid | Unary::Softplus, x) = self.graph.node(*id) {
                *self.exponentials.entry(self.size(x)).or_default() += 1;
            }
        }
    }

    fn constant(&mut self, x: f64) -> Operand {
        let next = self.constants.len() as u16;
        let place = *self.places.entry(x.to_bits()).or_insert(next);
        if place == next {
            self.constants.push(x);
        }
        Operand::Constant(place)
    }

    fn step(&mut self, op: Op, operands: [Operand; 3]) -> Operand {
        let next = Operand::Register(self.steps.len().min(usize::from(u16::MAX)) as u16);
        let steps = &mut self.steps;
        *self.known.entry((op, operands)).or_insert_with(|| {
            steps.push((op, operands));
            next
        })
    }

    fn one(&mut self, op: Op, a: Operand) -> Operand {
        self.step(op, [a, a, a])
    }

    fn two(&mut self, op: Op, a: Operand, b: Operand) -> Operand {
        self.step(op, [a, b, b])
    }

    fn input(input: Input) -> Operand {
        Operand::Input(match input {
            Input::Target => 0,
            Input::Score => 1,
            Input::Column(place) => 2 + place,
        })
    }

    fn lower(&mut self, id: Id, values: &HashMap<Id, Operand>) -> Operand {
        let graph = self.graph;
        if graph.is_difference(id) {
            return self.difference(id);
        }
        match graph.node(id) {
            Node::Number(bits) => self.constant(f64::from_bits(bits)),
            Node::Input(input) => Self::input(input),
            Node::Unary(Unary::Sigmoid, a) if self.exponentials.get(&self.size(a)).is_some_and(|readers| *readers > 1) => {
                self.shared_sigmoid(values[&a])
            }
            Node::Unary(function, a) => self.unary(function, values[&a]),
            Node::Power(a, bits) => {
                let exponent = self.constant(f64::from_bits(bits));
                let logarithm = self.one(Op::Ln, values[&a]);
                let product = self.two(Op::Multiply, exponent, logarithm);
                self.one(Op::Exp, product)
            }
            Node::Binary(Binary::Add, a, b) => {
                // A product with -1 has been computed for whoever else reads it; here it is taken off.
                let taken_off = |id: Id| matches!(graph.factor(id), (-1.0, rest) if values.contains_key(&rest));
                match (taken_off(a), taken_off(b)) {
                    (_, true) => self.two(Op::Subtract, values[&a], values[&graph.factor(b).1]),
                    (true, false) => self.two(Op::Subtract, values[&b], values[&graph.factor(a).1]),
                    _ => self.two(Op::Add, values[&a], values[&b]),
                }
            }
            Node::Binary(Binary::Multiply, a, b) if graph.as_number(a) == Some(-1.0) => self.one(Op::Negative, values[&b]),
            Node::Binary(function, a, b) => {
                let op = match function {
                    Binary::Add => Op::Add,
                    Binary::Multiply => Op::Multiply,
                    Binary::Divide => Op::Divide,
                    Binary::Minimum => Op::Minimum,
                    Binary::Maximum => Op::Maximum,
                    Binary::Less => Op::Less,
                    Binary::LessEqual => Op::LessEqual,
                    Binary::Equal => Op::Equal,
                    Binary::And => Op::And,
                    Binary::Or => Op::Or,
                };
                self.two(op, values[&a], values[&b])
            }
            Node::Select(condition, a, b) => self.step(Op::Select, [values[&condition], values[&a], values[&b]]),
        }
    }

    /// The difference of target and score, in the target's own units.
    fn difference(&mut self, id: Id) -> Operand {
        let Node::Binary(_, a, b) = self.graph.node(id) else { return Operand::Input(0) };
        let target_first = [a, b].into_iter().any(|operand| self.graph.node(operand) == Node::Input(Input::Target));
        let (target, score) = (Self::input(Input::Target), Self::input(Input::Score));
        let difference = if target_first { self.two(Op::Subtract, target, score) } else { self.two(Op::Subtract, score, target) };
        match self.unit {
            None | Some(1.0) => difference,
            Some(unit) => {
                let unit = self.constant(unit);
                self.two(Op::Multiply, difference, unit)
            }
        }
    }

    /// A function of one value in steps that lose no digits.
    fn unary(&mut self, function: Unary, a: Operand) -> Operand {
        match function {
            Unary::Exp => self.one(Op::Exp, a),
            Unary::Ln => self.one(Op::Ln, a),
            Unary::Sqrt => self.one(Op::Sqrt, a),
            Unary::Abs => self.abs(a),
            Unary::Sign => self.one(Op::Sign, a),
            Unary::Sigmoid => self.one(Op::Sigmoid, a),
            Unary::Not => self.one(Op::Not, a),
            Unary::Ln1p => self.ln1p(a),
            Unary::Expm1 => self.expm1(a),
            Unary::Softplus => {
                // max(x, 0) + ln(1 + exp(-|x|))
                let zero = self.constant(0.0);
                let small = self.small_exponential(a);
                let (rest, positive) = (self.ln1p(small), self.two(Op::Maximum, a, zero));
                self.two(Op::Add, positive, rest)
            }
            Unary::Tanh => self.one(Op::Tanh, a),
        }
    }

    /// `exp(-|x|)`.
    fn small_exponential(&mut self, x: Operand) -> Operand {
        let size = self.abs(x);
        let minus = self.one(Op::Negative, size);
        self.one(Op::Exp, minus)
    }

    /// `|x|`, which is that of `-x` too.
    fn abs(&mut self, x: Operand) -> Operand {
        let of = match x {
            Operand::Register(step) => match self.steps[usize::from(step)] {
                (Op::Negative, [minus, ..]) => minus,
                _ => x,
            },
            _ => x,
        };
        self.one(Op::Abs, of)
    }

    /// [`Op::Sigmoid`] in steps, of which others that read `exp(-|x|)` have the first ones too. The same bits.
    fn shared_sigmoid(&mut self, x: Operand) -> Operand {
        let (zero, one) = (self.constant(0.0), self.constant(1.0));
        let small = self.small_exponential(x);
        let sum = self.two(Op::Add, one, small);
        let is_negative = self.two(Op::Less, x, zero);
        let share = self.step(Op::Select, [is_negative, small, one]);
        self.two(Op::Divide, share, sum)
    }

    /// `ln(1 + x)`: the logarithm of the rounded sum, and what the rounding left over (Kahan).
    fn ln1p(&mut self, x: Operand) -> Operand {
        let one = self.constant(1.0);
        let sum = self.two(Op::Add, one, x);
        let logarithm = self.one(Op::Ln, sum);
        let rounded = self.two(Op::Subtract, sum, one);
        let left = self.two(Op::Subtract, x, rounded);
        let correction = self.two(Op::Divide, left, sum);
        // Of 0 and of what is larger than all numbers the correction is no number.
        let is_number = self.two(Op::Equal, correction, correction);
        let zero = self.constant(0.0);
        let correction = self.step(Op::Select, [is_number, correction, zero]);
        self.two(Op::Add, logarithm, correction)
    }

    /// `exp(x) - 1`: `(u - 1) x / ln u` with the rounded `u = exp(x)` (Kahan), where that loses nothing.
    fn expm1(&mut self, x: Operand) -> Operand {
        let one = self.constant(1.0);
        let u = self.one(Op::Exp, x);
        let less = self.two(Op::Subtract, u, one);
        let logarithm = self.one(Op::Ln, u);
        let ratio = self.two(Op::Divide, x, logarithm);
        let corrected = self.two(Op::Multiply, less, ratio);
        // Far from 0 nothing cancels; near it u is 1 and its logarithm 0.
        let (near, half) = (self.two(Op::Equal, u, one), self.constant(0.5));
        let size = self.one(Op::Abs, x);
        let far = self.two(Op::Less, half, size);
        let apart = self.step(Op::Select, [far, less, corrected]);
        self.step(Op::Select, [near, x, apart])
    }
}

/// Leaves out the steps whose results nobody reads.
fn read_alone(steps: Vec<Step>, outputs: Vec<Operand>) -> (Vec<Step>, Vec<Operand>) {
    let mut is_read = vec![false; steps.len()];
    let read = |operand: &Operand, is_read: &mut [bool]| {
        if let Operand::Register(of) = operand {
            is_read[usize::from(*of)] = true;
        }
    };
    outputs.iter().for_each(|output| read(output, &mut is_read));
    for number in (0..steps.len()).rev() {
        if is_read[number] {
            steps[number].1.iter().for_each(|operand| read(operand, &mut is_read));
        }
    }
    let (mut places, mut kept) = (vec![0u16; steps.len()], Vec::with_capacity(steps.len()));
    let moved = |operand: Operand, places: &[u16]| match operand {
        Operand::Register(of) => Operand::Register(places[usize::from(of)]),
        other => other,
    };
    for (number, (op, operands)) in steps.into_iter().enumerate().filter(|(number, _)| is_read[*number]) {
        places[number] = kept.len() as u16;
        kept.push((op, operands.map(|operand| moved(operand, &places))));
    }
    let outputs = outputs.into_iter().map(|output| moved(output, &places)).collect();
    (kept, outputs)
}

/// Gives registers to the results of steps, again to others when nobody reads them any more.
fn assign(steps: Vec<Step>, outputs: Vec<Operand>, constants: Vec<f64>) -> Result<Program, String> {
    let mut last = vec![0usize; steps.len()];
    for (number, (_, operands)) in steps.iter().enumerate() {
        for operand in operands {
            if let Operand::Register(of) = operand {
                last[usize::from(*of)] = number;
            }
        }
    }
    for output in &outputs {
        if let Operand::Register(of) = output {
            last[usize::from(*of)] = usize::MAX;
        }
    }
    let (mut places, mut free, mut registers) = (vec![0u16; steps.len()], vec![], 0usize);
    let placed = |operand: Operand, places: &[u16]| match operand {
        Operand::Register(of) => Operand::Register(places[usize::from(of)]),
        other => other,
    };
    let mut instructions = Vec::with_capacity(steps.len());
    for (number, (op, operands)) in steps.into_iter().enumerate() {
        let out = free.pop().unwrap_or_else(|| {
            registers += 1;
            (registers - 1) as u16
        });
        places[number] = out;
        instructions.push(Instruction { op, out, operands: operands.map(|operand| placed(operand, &places)) });
        let mut read: Vec<u16> = operands.iter().filter_map(|o| if let Operand::Register(of) = o { Some(*of) } else { None }).collect();
        read.sort_unstable();
        read.dedup();
        free.extend(read.into_iter().filter(|of| last[usize::from(*of)] == number).map(|of| places[usize::from(of)]));
        if registers > MOST_REGISTERS {
            return Err(format!("its derivatives need more than {MOST_REGISTERS} values at a time"));
        }
    }
    let outputs = outputs.into_iter().map(|output| placed(output, &places)).collect();
    Ok(Program { instructions, constants, registers, outputs })
}
