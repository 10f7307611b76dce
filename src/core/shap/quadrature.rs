//! Gauss-Legendre quadrature on the interval from 0 to 1.

/// A rule: the integral of a polynomial of degree `2 points - 1` or less is the weighted sum of its values at the points.
#[derive(Clone, Debug, PartialEq)]
pub struct Quadrature {
    /// Ascending, inside the interval.
    pub points: Vec<f64>,
    /// Positive; their sum is 1.
    pub weights: Vec<f64>,
}

impl Quadrature {
    /// Computes the rule of so many points, by Newton's method from Tricomi's approximation of the roots of the Legendre polynomial.
    ///
    /// ```
    /// use taiga_core::shap::quadrature::Quadrature;
    /// let rule = Quadrature::new(3);
    /// let integral: f64 = rule.points.iter().zip(&rule.weights).map(|(t, w)| w * t.powi(5)).sum();
    /// assert!((integral - 1.0 / 6.0).abs() < 1e-15);
    /// ```
    pub fn new(count: usize) -> Self {
        let mut rule = Quadrature { points: vec![0.0; count], weights: vec![0.0; count] };
        let n = count as f64;
        for i in 0..count.div_ceil(2) {
            let mut x = (std::f64::consts::PI * (i as f64 + 0.75) / (n + 0.5)).cos();
            let mut slope = 1.0;
            for _ in 0..100 {
                let (value, below) = legendre(count, x);
                slope = n * (below - x * value) / (1.0 - x * x);
                let step = value / slope;
                x -= step;
                if step.abs() <= 1e-16 {
                    break;
                }
            }
            let weight = 1.0 / ((1.0 - x * x) * slope * slope);
            rule.points[i] = 0.5 * (1.0 - x);
            rule.points[count - 1 - i] = 0.5 * (1.0 + x);
            rule.weights[i] = weight;
            rule.weights[count - 1 - i] = weight;
        }
        rule
    }
}

/// Computes the Legendre polynomials of degree `n` and `n - 1` at `x`.
fn legendre(n: usize, x: f64) -> (f64, f64) {
    let (mut value, mut below) = (1.0, 0.0);
    for k in 0..n {
        let k = k as f64;
        (value, below) = (((2.0 * k + 1.0) * x * value - k * below) / (k + 1.0), value);
    }
    (value, below)
}
