use polars::prelude::*;
use pyo3::prelude::*;
use pyo3_polars::PolarsAllocator;
use pyo3_polars::derive::polars_expr;
#[global_allocator]
static ALLOC: PolarsAllocator = PolarsAllocator::new();
#[polars_expr(output_type=Float64)]
fn probe(inputs: &[Series]) -> PolarsResult<Series> {
    let n: usize = inputs.iter().map(|s| s.n_chunks()).sum();
    let mut out: Vec<f64> = vec![n as f64];
    for s in inputs {
        out.push(s.len() as f64);
        out.push(s.n_chunks() as f64);
        if let Ok(st) = s.struct_() {
            for f in st.fields_as_series() {
                out.push(f.n_chunks() as f64);
                if let Ok(c) = f.f32() {
                    out.push(c.downcast_iter().next().unwrap().values().as_ptr() as usize as f64);
                }
            }
        }
        if let Ok(c) = s.f32() {
            out.push(c.downcast_iter().next().unwrap().values().as_ptr() as usize as f64);
        }
    }
    Ok(Series::new("p".into(), [Series::new("".into(), out)]))
}
#[pymodule]
fn _taiga(_m: &Bound<'_, PyModule>) -> PyResult<()> {
    Ok(())
}
