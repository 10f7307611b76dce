//! Estimates of the seconds that work takes on the CPU and on a GPU, by which `"auto"` chooses: the only place with such figures.
//!
//! Measured on Zen 4 at 3.5 GHz and on an H200; figures of the GPU are some times the measured ones, for lesser ones.

use taiga_core::learners::linear::problem::Problem;
use taiga_core::learners::linear::{LinearParams, Optimizer};

/// Estimated seconds of some work.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cost {
    /// What the threads that it has of the CPU take.
    pub cpu: f64,
    /// What a GPU takes, or what the CPU must take for a GPU to be worth its opening and the upload.
    pub gpu: f64,
}

/// Work that takes the CPU less is not brought to a GPU, where no closer estimate is known.
const WORTH_A_GPU: f64 = 2.0;

impl Cost {
    /// Returns whether a GPU is expected to gain.
    pub fn gains(&self) -> bool {
        self.cpu > self.gpu
    }

    /// Returns both figures, in words.
    pub fn words(&self) -> String {
        format!("an estimated {:.2} s on the CPU, where a GPU gains from {:.2} s on", self.cpu, self.gpu)
    }
}

/// Estimates a fit of boosted trees. The CPU reads a value for a tree in 1.1 ns on one thread; a GPU takes 0.1 s to begin, 1 ns to
/// upload a value, 0.3 ms a tree and 7 ps a value (30 here).
pub fn trees(threads: usize, (rows, features): (usize, usize), trees: usize) -> Cost {
    let values = rows as f64 * features as f64;
    let trees = trees as f64;
    Cost { cpu: values * trees * 1.1e-9 / threads as f64, gpu: 0.1 + values * 1e-9 + trees * (3e-4 + values * 3e-11) }
}

/// Estimates fits to many small tables, of so many rows and features each. Preparing one takes a thread about as long wherever its trees
/// grow; a tree takes it about 10 µs and 25 ns a value; a GPU takes 0.3 s to be opened and 0.3 ns a value and tree.
pub fn small_tables(threads: usize, tables: usize, (rows, features): (usize, usize), trees: usize) -> Cost {
    let trees = (tables * trees) as f64;
    let values = rows as f64 * features as f64;
    Cost { cpu: trees * (1e-5 + 25e-9 * values) / threads as f64, gpu: 0.3 + trees * (5e-7 + 3e-10 * values) }
}

/// Estimates the growth of a forest that looks at so many values, over all nodes and trees: each takes a thread about 2 ns.
pub fn forest(threads: usize, values: f64) -> Cost {
    Cost { cpu: 2e-9 * values / threads as f64, gpu: WORTH_A_GPU }
}

/// Estimates a sparse logistic regression. An entry takes a thread about 4 ns a pass of L-BFGS, a score and a gradient, and 15 ns an epoch
/// by batches; a GPU takes about 15 µs a batch, whatever its rows.
pub fn linear(threads: usize, problem: &Problem<'_>, params: &LinearParams) -> Cost {
    let entries = problem.csr.as_ref().map_or(0, |c| c.entries()) + problem.rows * (problem.dense.len() + 8);
    let (of_entry, batches) = match params.optimizer {
        Optimizer::Lbfgs => (4e-9, 0.0),
        _ => (15e-9, 1.5e-5 * (problem.rows / params.batch() as usize) as f64),
    };
    let epochs = params.epochs() as f64;
    let cpu = of_entry * entries as f64 * problem.outputs as f64 * epochs / threads as f64;
    Cost { cpu, gpu: WORTH_A_GPU.max(2.0 * batches * epochs) }
}

/// Estimates a sort of so many values by one thread, which takes 17 to 62 ns a value (10^8 of them; 100 different f32, and f64). A GPU
/// takes 0.3 s to be opened and 0.1 to 0.25 ns a value from host memory (0.5 here).
pub fn sorting(values: usize) -> Cost {
    Cost { cpu: values as f64 * 15e-9, gpu: 0.3 + values as f64 * 0.5e-9 }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Proves that little work stays where it is and that much work goes, and that the words have both figures.
    #[test]
    fn a_gpu_gains_where_there_is_much_to_do() {
        assert!(!sorting(1_000_000).gains() && sorting(30_000_000).gains());
        assert!(!forest(2, 1e9).gains() && forest(2, 1e10).gains());
        assert!(!forest(16, 1e10).gains(), "more threads take less");
        assert_eq!(forest(2, 1e9).words(), "an estimated 1.00 s on the CPU, where a GPU gains from 2.00 s on");
    }
}
