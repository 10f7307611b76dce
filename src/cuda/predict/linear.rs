//! A linear model applied on the GPU: what [`taiga_core::learners::linear::Predictor`] computes, with the same bits.

use super::PREDICT;
use super::answers::rows_by;
use crate::forest::layouts::address_of;
use crate::launch;
use crate::runtime::column::bytes_of_mut;
use crate::runtime::device::Gpu;
use crate::runtime::queue::Queue;
use crate::runtime::upload::upload;
use cudarc::driver::CudaSlice;
use taiga_core::error::Result;
use taiga_core::learners::linear::csr::{FeatureNumbers, Piece};
use taiga_core::learners::linear::predict::ReadRows;
use taiga_core::learners::linear::{Predictor, check_dense};

/// A linear model on a GPU, to be applied many times, from several threads at once.
pub struct DeviceLinear {
    /// What the buffers were made on; it outlives them.
    queue: Queue,
    /// The ascending numbers of the features that have coefficients; none where these stand by number.
    numbers: Option<CudaSlice<u64>>,
    /// How many features have a place among the coefficients.
    known: usize,
    weights: CudaSlice<f32>,
    dense_weights: CudaSlice<f64>,
    intercepts: CudaSlice<f64>,
    outputs: usize,
}

/// Where what the lists give goes: to the scores; or to a part of its own, less the mean, of so many that an output has.
struct Target<'a> {
    means: Option<&'a CudaSlice<f64>>,
    parts: usize,
}

impl DeviceLinear {
    /// Copies `predictor`'s model to `gpu`.
    ///
    /// # Errors
    /// [`taiga_core::Error::Device`].
    pub fn new(gpu: &'static Gpu, predictor: &Predictor) -> Result<Self> {
        let (queue, model) = (Queue::new(gpu)?, predictor.model());
        let outputs = model.outputs();
        let (numbers, weights) = match predictor.coefficients_by_number() {
            Some(by_number) => (None, by_number),
            None => (Some(upload(&queue, "a model", &model.numbers)?), model.weights.as_slice()),
        };
        let placed = DeviceLinear {
            numbers,
            known: weights.len() / outputs,
            weights: upload(&queue, "a model", weights)?,
            dense_weights: upload(&queue, "a model", &model.dense_weights)?,
            intercepts: upload(&queue, "a model", &model.intercepts)?,
            outputs,
            queue,
        };
        placed.queue.synchronize()?;
        Ok(placed)
    }

    /// Copies the dense columns to the GPU, `[column][row]`.
    fn dense(&self, queue: &Queue, rows: &ReadRows<'_, '_>) -> Result<CudaSlice<f64>> {
        let mut values = vec![0.0; rows.dense.len() * rows.rows];
        for (column, values) in rows.dense.iter().zip(values.chunks_exact_mut(rows.rows)) {
            column.read_f64(0, values);
            check_dense(column.name(), values)?;
        }
        upload(queue, "values", &values)
    }

    /// Checks that there is room for rows with so many numbers of each that are written.
    fn check(&self, queue: &Queue, rows: &ReadRows<'_, '_>, written: usize) -> Result<()> {
        let entries = rows.csr.as_ref().map_or(0, |csr| csr.entries());
        queue.check_memory("predicting", (8 * rows.rows * (rows.dense.len() + written + 1) + 12 * entries) as u64)
    }

    /// Adds what the lists of all rows give; does not wait.
    fn add_lists(&self, queue: &Queue, rows: &ReadRows<'_, '_>, target: &Target<'_>, out: &mut CudaSlice<f64>) -> Result<()> {
        let mut first = 0;
        for piece in rows.csr.iter().flat_map(|csr| &csr.pieces) {
            self.add_piece(queue, piece, (first, rows.rows), target, out)?;
            first += piece.rows();
        }
        Ok(())
    }

    /// Adds what the lists of consecutive rows give, the first of which is row `first` of `all`.
    fn add_piece(
        &self,
        queue: &Queue,
        piece: &Piece<'_>,
        (first, all): (usize, usize),
        target: &Target<'_>,
        out: &mut CudaSlice<f64>,
    ) -> Result<()> {
        if piece.rows() == 0 {
            return Ok(());
        }
        // Lists stand one behind the other, so that each begins where the one before ends.
        let begin = piece.span(0).start;
        let starts: Vec<u64> = std::iter::once(0).chain((0..piece.rows()).map(|i| (piece.span(i).end - begin) as u64)).collect();
        let entries = begin..piece.span(piece.rows() - 1).end;
        let starts = upload(queue, "offsets", &starts)?;
        let (narrow, wide) = match &piece.keys {
            FeatureNumbers::Narrow(keys) => (Some(upload(queue, "feature numbers", &keys[entries.clone()])?), None),
            FeatureNumbers::Wide(keys) => (None, Some(upload(queue, "feature numbers", &keys[entries.clone()])?)),
        };
        let values = piece.values.as_ref().map(|values| upload(queue, "values", &values[entries])).transpose()?;
        let kernel = queue.gpu().kernel(PREDICT, "add_entries")?;
        let (n, first, known, outputs) = (piece.rows() as u64, first as u64, self.known as u64, self.outputs as u32);
        let (parts, step) = (target.parts as u32, (target.parts * all) as u64);
        let (narrow, wide) = (address_of(queue, narrow.as_ref()), address_of(queue, wide.as_ref()));
        let (values, numbers) = (address_of(queue, values.as_ref()), address_of(queue, self.numbers.as_ref()));
        let means = address_of(queue, target.means);
        // SAFETY: the arguments are those of `add_entries`: the lists end where the entries do, and `out` has room for all rows.
        unsafe {
            launch!(queue, kernel, rows_by(piece.rows(), self.outputs);
                &n, &first, &starts, &narrow, &wide, &values, &numbers, &known, &self.weights, &outputs, &means, &parts, &step, out)
        }
    }

    /// [`Predictor::raw`] on the GPU.
    ///
    /// # Errors
    /// As there, and [`taiga_core::Error::Device`].
    pub fn raw(&self, queue: &Queue, rows: &ReadRows<'_, '_>) -> Result<Vec<Vec<f64>>> {
        if rows.rows == 0 {
            return Ok(vec![vec![]; self.outputs]);
        }
        self.check(queue, rows, self.outputs)?;
        let dense = self.dense(queue, rows)?;
        let mut found = queue.alloc::<f64>("predictions", rows.rows * self.outputs)?;
        let kernel = queue.gpu().kernel(PREDICT, "score_dense")?;
        let (n, columns, outputs) = (rows.rows as u64, rows.dense.len() as u32, self.outputs as u32);
        // SAFETY: the arguments are those of `score_dense`: values of all rows and columns, and room for all scores.
        unsafe {
            launch!(queue, kernel, rows_by(rows.rows, self.outputs);
                &n, &columns, &dense, &self.dense_weights, &self.intercepts, &outputs, &mut found)?;
        }
        self.add_lists(queue, rows, &Target { means: None, parts: 1 }, &mut found)?;
        let mut out = vec![0.0; rows.rows * self.outputs];
        queue.download(&found, bytes_of_mut(&mut out))?;
        Ok(out.chunks(rows.rows).map(<[f64]>::to_vec).collect())
    }

    /// Computes what each column gives to each row's scores, less what it gives in the mean: `[output][column][row]`, as `means` without
    /// the rows.
    ///
    /// # Errors
    /// As [`DeviceLinear::raw`].
    pub fn explain(&self, queue: &Queue, rows: &ReadRows<'_, '_>, means: &[Vec<f64>]) -> Result<Vec<Vec<Vec<f64>>>> {
        let parts = means.first().map_or(0, Vec::len);
        if rows.rows == 0 || parts == 0 {
            return Ok(vec![vec![vec![]; parts]; self.outputs]);
        }
        self.check(queue, rows, self.outputs * parts)?;
        let dense = self.dense(queue, rows)?;
        let means = upload(queue, "means", &means.concat())?;
        let mut found = queue.alloc::<f64>("explanations", rows.rows * self.outputs * parts)?;
        let kernel = queue.gpu().kernel(PREDICT, "explain_dense")?;
        let (n, columns, outputs) = (rows.rows as u64, rows.dense.len() as u32, self.outputs as u32);
        let (first, all) = (parts as u32 - columns, parts as u32);
        // SAFETY: the arguments are those of `explain_dense`: values of all rows and columns, a mean and room for each part.
        unsafe {
            launch!(queue, kernel, rows_by(rows.rows, self.outputs);
                &n, &columns, &dense, &self.dense_weights, &means, &outputs, &first, &all, &mut found)?;
        }
        self.add_lists(queue, rows, &Target { means: Some(&means), parts }, &mut found)?;
        let mut out = vec![0.0; rows.rows * self.outputs * parts];
        queue.download(&found, bytes_of_mut(&mut out))?;
        let of_output = |own: &[f64]| own.chunks(rows.rows).map(<[f64]>::to_vec).collect();
        Ok(out.chunks(rows.rows * parts).map(of_output).collect())
    }
}
