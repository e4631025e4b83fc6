//! Takes torch out of a hash-pinned lock, for a build that another index has.

/// A lock in two parts.
pub(super) struct Split {
    /// Everything but torch and what only its CUDA build needs, with hashes.
    pub(super) rest: String,
    /// `torch==…` and its companions, without hashes.
    pub(super) torch: Vec<String>,
}

/// Distributions that come from the torch index together.
const TORCH: &[&str] = &["torch", "torchvision"];
/// Distributions that only the CUDA build of torch needs.
const CUDA_PREFIXES: &[&str] = &["nvidia-", "triton", "cuda-"];

/// Splits a lock as `uv pip compile` writes it: a requirement begins at the start of a line, and
/// its hashes and comments are indented.
pub(super) fn without_torch(lock: &str) -> Split {
    let mut split = Split { rest: String::new(), torch: Vec::new() };
    let mut keep = true;
    for line in lock.lines() {
        if !line.starts_with([' ', '#']) && !line.is_empty() {
            let requirement = line.trim_end_matches(['\\', ' ']);
            let pinned = requirement.split(';').next().unwrap_or_default().trim();
            let name = pinned.split("==").next().unwrap_or_default();
            let is_torch = TORCH.contains(&name);
            if is_torch {
                split.torch.push(pinned.to_owned());
            }
            keep = !is_torch && !CUDA_PREFIXES.iter().any(|prefix| name.starts_with(prefix));
        }
        if keep {
            split.rest.push_str(line);
            split.rest.push('\n');
        }
    }
    split
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn torch_and_its_cuda_libraries_leave_the_lock_and_nothing_else_does() {
        let split = without_torch(super::super::REQUIREMENTS);
        assert_eq!(split.torch.len(), 2, "{:?}", split.torch);
        assert!(
            split.torch.iter().all(|pinned| pinned.starts_with("torch") && pinned.contains("=="))
        );
        for line in split.rest.lines().filter(|line| !line.starts_with([' ', '#'])) {
            assert!(!line.starts_with("nvidia-") && !line.starts_with("torch=="), "{line}");
            assert!(line.contains("=="), "{line} is pinned");
        }
        for needed in ["torch-tpu==", "libtpu==", "transformers==", "lammps-jax-pjrt-cpu=="] {
            assert!(split.rest.contains(needed), "{needed}");
        }
    }
}
