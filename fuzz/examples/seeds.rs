//! Writes the seeds to `corpus/<target>/seed-<name>`, in the current folder: `cd fuzz && cargo run --release --example seeds`.

fn main() -> std::io::Result<()> {
    for (target, name, bytes) in taiga_fuzz::seeds::seeds() {
        let folder = std::path::Path::new("corpus").join(target);
        std::fs::create_dir_all(&folder)?;
        std::fs::write(folder.join(format!("seed-{name}")), bytes)?;
    }
    Ok(())
}
