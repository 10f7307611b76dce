//! Runs a program on the CPU: an instruction at a time on tiles of rows, each a loop of vector code.

use super::program::{Instruction, Op, Operand, Program};
use crate::numerics::math;
use multiversion::multiversion;

/// The rows of a tile: registers of a few formulas fit in the first-level cache.
pub const TILE: usize = 256;

/// Numbers that programs are run on. Every function is made of IEEE operations and those of [`crate::numerics::math`], so that
/// all machines compute the same bits.
pub trait Real: Copy + PartialEq + PartialOrd + Default + 'static {
    const ZERO: Self;
    const ONE: Self;
    fn of(x: f64) -> Self;
    fn add(self, other: Self) -> Self;
    fn subtract(self, other: Self) -> Self;
    fn multiply(self, other: Self) -> Self;
    fn divide(self, other: Self) -> Self;
    fn negative(self) -> Self;
    fn abs(self) -> Self;
    fn sqrt(self) -> Self;
    fn exp(self) -> Self;
    fn ln(self) -> Self;
    fn sigmoid(self) -> Self;
    fn tanh(self) -> Self;
}

macro_rules! real {
    ($real:ident, $exp:path, $ln:path, $sigmoid:path, $tanh:path, $sqrt:path) => {
        impl Real for $real {
            const ZERO: Self = 0.0;
            const ONE: Self = 1.0;

            #[inline(always)]
            fn of(x: f64) -> Self {
                x as $real
            }

            #[inline(always)]
            fn add(self, other: Self) -> Self {
                self + other
            }

            #[inline(always)]
            fn subtract(self, other: Self) -> Self {
                self - other
            }

            #[inline(always)]
            fn multiply(self, other: Self) -> Self {
                self * other
            }

            #[inline(always)]
            fn divide(self, other: Self) -> Self {
                self / other
            }

            #[inline(always)]
            fn negative(self) -> Self {
                -self
            }

            #[inline(always)]
            fn abs(self) -> Self {
                $real::abs(self)
            }

            #[inline(always)]
            fn sqrt(self) -> Self {
                $sqrt(self)
            }

            #[inline(always)]
            fn exp(self) -> Self {
                $exp(self)
            }

            #[inline(always)]
            fn ln(self) -> Self {
                $ln(self)
            }

            #[inline(always)]
            fn sigmoid(self) -> Self {
                $sigmoid(self)
            }

            #[inline(always)]
            fn tanh(self) -> Self {
                $tanh(self)
            }
        }
    };
}
real!(f32, math::exp, math::ln, math::sigmoid, math::tanh, f32::sqrt);
real!(f64, math::exp64, math::ln64, math::sigmoid64, math::tanh64, f64::sqrt);

/// A number of each row of a tile, where vectors of any width lie within cache lines.
#[repr(align(64))]
struct Tile<T>([T; TILE]);

/// A program's registers and constants. A register that is being written is not there.
pub struct Tiles<T> {
    registers: Vec<Room<T>>,
    constants: Vec<Room<T>>,
}

impl<T: Real> Tiles<T> {
    /// Makes room for a program.
    pub fn new(program: &Program) -> Self {
        Tiles {
            registers: (0..program.registers).map(|_| Some(Box::new(Tile([T::ZERO; TILE])))).collect(),
            constants: program.constants.iter().map(|x| Some(Box::new(Tile([T::of(*x); TILE])))).collect(),
        }
    }

    /// Runs the program on up to [`TILE`] rows: `inputs` are the target, the score and further columns, of one length. Returns its
    /// outputs.
    pub fn run<'a>(&'a mut self, program: &'a Program, inputs: &'a [&'a [T]]) -> impl Iterator<Item = &'a [T]> {
        let rows = inputs[0].len();
        run_tile(&program.instructions, inputs, &self.constants, &mut self.registers, rows);
        let tiles = &*self;
        program.outputs.iter().map(move |output| operand(*output, inputs, &tiles.constants, &tiles.registers, rows))
    }
}

type Room<T> = Option<Box<Tile<T>>>;

#[inline(always)]
fn operand<'a, T>(of: Operand, inputs: &'a [&'a [T]], constants: &'a [Room<T>], registers: &'a [Room<T>], rows: usize) -> &'a [T] {
    let (rooms, place) = match of {
        Operand::Register(place) => (registers, place),
        Operand::Constant(place) => (constants, place),
        Operand::Input(place) => return &inputs[usize::from(place)][..rows],
    };
    rooms[usize::from(place)].as_ref().map_or(&[], |tile| &tile.0[..rows])
}

#[multiversion(targets("x86_64+avx512f+avx512bw+avx512dq+avx512vl+bmi1+bmi2", "x86_64+avx2+bmi1+bmi2"))]
fn run_tile<T: Real>(instructions: &[Instruction], inputs: &[&[T]], constants: &[Room<T>], registers: &mut [Room<T>], rows: usize) {
    for instruction in instructions {
        // None of the operands stands there.
        let Some(mut room) = registers[usize::from(instruction.out)].take() else { continue };
        let out = &mut room.0[..rows];
        let [a, b, c] = instruction.operands;
        let a = operand(a, inputs, constants, registers, rows);
        let b = operand(b, inputs, constants, registers, rows);
        let c = operand(c, inputs, constants, registers, rows);
        match instruction.op {
            Op::Add => two(out, a, b, T::add),
            Op::Subtract => two(out, a, b, T::subtract),
            Op::Multiply => two(out, a, b, T::multiply),
            Op::Divide => two(out, a, b, T::divide),
            Op::Minimum => two(out, a, b, |x, y| if y < x { y } else { x }),
            Op::Maximum => two(out, a, b, |x, y| if y > x { y } else { x }),
            Op::Less => two(out, a, b, |x, y| truth(x < y)),
            Op::LessEqual => two(out, a, b, |x, y| truth(x <= y)),
            Op::Equal => two(out, a, b, |x, y| truth(x == y)),
            Op::And => two(out, a, b, |x, y| truth((x != T::ZERO) & (y != T::ZERO))),
            Op::Or => two(out, a, b, |x, y| truth((x != T::ZERO) | (y != T::ZERO))),
            Op::Not => one(out, a, |x| truth(x == T::ZERO)),
            Op::Select => {
                for (((o, x), y), z) in out.iter_mut().zip(a).zip(b).zip(c) {
                    // Both are read, or vector code would gather them from where the condition says.
                    let (y, z) = (*y, *z);
                    *o = if *x != T::ZERO { y } else { z };
                }
            }
            Op::Negative => one(out, a, T::negative),
            Op::Abs => one(out, a, T::abs),
            Op::Sign => one(out, a, |x| truth::<T>(x > T::ZERO).subtract(truth(x < T::ZERO))),
            Op::Sqrt => one(out, a, T::sqrt),
            Op::Exp => one(out, a, T::exp),
            Op::Ln => one(out, a, T::ln),
            Op::Sigmoid => one(out, a, T::sigmoid),
            Op::Tanh => one(out, a, T::tanh),
        }
        registers[usize::from(instruction.out)] = Some(room);
    }
}

#[inline(always)]
fn truth<T: Real>(holds: bool) -> T {
    if holds { T::ONE } else { T::ZERO }
}

#[inline(always)]
fn one<T: Real>(out: &mut [T], a: &[T], function: impl Fn(T) -> T) {
    for (o, x) in out.iter_mut().zip(a) {
        *o = function(*x);
    }
}

#[inline(always)]
fn two<T: Real>(out: &mut [T], a: &[T], b: &[T], function: impl Fn(T, T) -> T) {
    for ((o, x), y) in out.iter_mut().zip(a).zip(b) {
        *o = function(*x, *y);
    }
}
