//! When the events of rows happened, as far as is known.

use super::target::{in_parts, to_f64};
use crate::column::Column;
use crate::error::{Error, Result};
use rayon::prelude::*;

/// What a table says of the events of its rows beside their times, which are the target: either of both ways, or nothing.
#[derive(Clone, Default)]
pub struct EventTimes<'a> {
    /// 1 where the event happened at the target, 0 where it had not until then.
    pub event: Option<Column<'a>>,
    /// The least time that the event may have happened at; the target unless told. 0 where nothing bounds it.
    pub lower: Option<Column<'a>>,
    /// The largest one; the target unless told. ∞ where nothing bounds it.
    pub upper: Option<Column<'a>>,
}

impl<'a> EventTimes<'a> {
    /// Whether the table says anything of events.
    pub fn is_given(&self) -> bool {
        self.columns().next().is_some()
    }

    /// Returns the columns that there are.
    pub fn columns(&self) -> impl Iterator<Item = &Column<'a>> {
        self.event.iter().chain(&self.lower).chain(&self.upper)
    }

    /// Returns the least and the largest time of each row's event; nothing where the table says nothing of events.
    ///
    /// # Errors
    /// Naming the column and the row: for an event that is neither 0 nor 1, a bound that is negative or no number, a lower bound above the
    /// upper one, and a target that is not between them.
    ///
    /// ```
    /// use taiga_core::column::Column;
    /// use taiga_core::dataset::EventTimes;
    /// let died = EventTimes { event: Some(Column::from_f64("died", &[1.0, 0.0])), ..EventTimes::default() };
    /// assert_eq!(died.bounds("time", &[2.0, 3.0])?, Some([vec![2.0, 3.0], vec![2.0, f64::INFINITY]]));
    /// # Ok::<(), taiga_core::Error>(())
    /// ```
    pub fn bounds(&self, target_name: &str, target: &[f64]) -> Result<Option<[Vec<f64>; 2]>> {
        if let Some(event) = &self.event {
            if self.lower.is_some() || self.upper.is_some() {
                return Err(Error::parameter("event", "says the same as `lower` and `upper`: give one or the other"));
            }
            return Ok(Some([target.to_vec(), of_events(event, target)?]));
        }
        if !self.is_given() {
            return Ok(None);
        }
        let lower = self.lower.as_ref().map_or(Ok(target.to_vec()), |column| of_bounds(column, f64::MAX))?;
        let upper = self.upper.as_ref().map_or(Ok(target.to_vec()), |column| of_bounds(column, f64::INFINITY))?;
        let (below, above) = (self.lower.as_ref().map_or(target_name, Column::name), self.upper.as_ref().map_or(target_name, Column::name));
        let fault = |row: usize| {
            let (l, t, u) = (lower[row], target[row], upper[row]);
            let text = |name: &str, text: String| Some(Error::column(name, text).of_values());
            match () {
                () if l > u => text(below, format!("it is {l} in row {row}, above `{above}`, which is {u}")),
                () if t < l => text(target_name, format!("it is {t} in row {row}, below `{below}`, which is {l}")),
                () if t > u => text(target_name, format!("it is {t} in row {row}, above `{above}`, which is {u}")),
                () => None,
            }
        };
        (0..target.len()).find_map(fault).map_or(Ok(Some([lower, upper])), Err)
    }
}

/// The largest times of events, of which some had not happened at their targets.
fn of_events(event: &Column<'_>, target: &[f64]) -> Result<Vec<f64>> {
    let marks = to_f64(event);
    if let Some((row, x)) = in_parts(&marks).enumerate().find_map_first(|(row, x)| (*x != 0.0 && *x != 1.0).then_some((row, *x))) {
        let what = if x.is_nan() { "null or NaN".into() } else { format!("{x}") };
        let text =
            format!("it is {what} in row {row}: an event is true where it happened at the target, and false where it had not until then");
        return Err(Error::column(event.name(), text).of_values());
    }
    Ok(marks.iter().zip(target).map(|(mark, time)| if *mark == 1.0 { *time } else { f64::INFINITY }).collect())
}

/// A column of bounds, up to `most`.
fn of_bounds(column: &Column<'_>, most: f64) -> Result<Vec<f64>> {
    let values = to_f64(column);
    if let Some((row, x)) = in_parts(&values).enumerate().find_map_first(|(row, x)| (!(0.0..=most).contains(x)).then_some((row, *x))) {
        let what = if x.is_nan() { "null or NaN".into() } else { format!("{x}") };
        let text = format!("it is {what} in row {row}: a bound of a time is not negative; where there is none, 0 below and infinity above");
        return Err(Error::column(column.name(), text).of_values());
    }
    Ok(values)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn column<'a>(name: &'a str, values: &'a [f64]) -> Option<Column<'a>> {
        Some(Column::from_f64(name, values))
    }

    fn fault(times: &EventTimes<'_>, target: &[f64]) -> String {
        times.bounds("time", target).unwrap_err().to_string()
    }

    #[test]
    fn bounds_default_to_the_target() {
        let inf = f64::INFINITY;
        assert_eq!(EventTimes::default().bounds("time", &[1.0]), Ok(None));
        let open = [2.0, inf];
        let above = EventTimes { upper: column("hi", &open), ..EventTimes::default() };
        assert_eq!(above.bounds("time", &[1.0, 3.0]), Ok(Some([vec![1.0, 3.0], vec![2.0, inf]])));
        let below = EventTimes { lower: column("lo", &[0.0, 3.0]), ..EventTimes::default() };
        assert_eq!(below.bounds("time", &[1.0, 3.0]), Ok(Some([vec![0.0, 3.0], vec![1.0, 3.0]])));
    }

    #[test]
    fn what_is_no_bound_is_named_with_its_row() {
        let nan = f64::NAN;
        for (x, what) in [(2.0, "2"), (nan, "null or NaN"), (0.5, "0.5"), (-1.0, "-1")] {
            let text = fault(&EventTimes { event: column("died", &[1.0, x]), ..EventTimes::default() }, &[1.0, 1.0]);
            assert!(text.contains("`died`") && text.contains("row 1") && text.contains(what), "{text}");
        }
        for x in [nan, -1.0, f64::NEG_INFINITY] {
            let text = fault(&EventTimes { upper: column("hi", &[1.0, x]), ..EventTimes::default() }, &[1.0, 1.0]);
            assert!(text.contains("`hi`") && text.contains("row 1"), "{text}");
        }
        let text = fault(&EventTimes { lower: column("lo", &[f64::INFINITY]), ..EventTimes::default() }, &[1.0]);
        assert!(text.contains("`lo`") && text.contains("inf"), "{text}");
        let both = |lower, upper| EventTimes { event: None, lower: column("lo", lower), upper: column("hi", upper) };
        let text = fault(&both(&[3.0], &[2.0]), &[2.5]);
        assert!(text.contains("`lo`: it is 3 in row 0, above `hi`, which is 2"), "{text}");
        assert!(fault(&both(&[3.0], &[4.0]), &[2.5]).contains("`time`: it is 2.5 in row 0, below `lo`"));
        assert!(fault(&both(&[1.0], &[2.0]), &[2.5]).contains("above `hi`"));
        let twice = EventTimes { event: column("died", &[1.0]), upper: column("hi", &[1.0]), lower: None };
        assert!(fault(&twice, &[1.0]).contains("`event`"));
    }
}
