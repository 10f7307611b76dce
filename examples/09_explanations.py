"""What moved a prediction: Shapley values of a row, of all rows, against rows of one's choice; partial dependence."""

import polars as pl
import polars_taiga as tg
from sklearn.datasets import load_diabetes

data = load_diabetes(scaled=False)
df = pl.DataFrame(data.data, schema=data.feature_names).with_columns(progression=pl.Series(data.target))
model = df.taiga.fit_gbdt("progression", pl.exclude("progression"), rounds=150, learning_rate=0.05, depth=4)

# Each column's part in each row's prediction. With the base value they sum to it.
parts = df.select(tg.predict(model, output="shap")).unnest("prediction")
predicted = df.select(tg.predict(model)).to_series()
row = 7
print(f"row {row}: {parts['base_value'][row]:.1f} is the mean, {predicted[row]:.1f} is predicted")
one = parts.drop("base_value").slice(row, 1).unpivot(variable_name="column", value_name="moved")
values = df.drop("progression").slice(row, 1).unpivot(variable_name="column", value_name="value")
print(one.join(values, on="column").sort(pl.col("moved").abs(), descending=True).head(5))
print(f"sum of all: {sum(parts.row(row)):.1f}")

# In the mean over all rows: how much a column moves.
print(
    parts.drop("base_value")
    .select(pl.all().abs().mean())
    .unpivot(variable_name="column", value_name="mean |moved|")
    .sort("mean |moved|", descending=True)
    .head(5)
)

# Against rows of one's choice: what sets this patient apart from the thinnest third.
thin = df.filter(pl.col("bmi") < pl.col("bmi").quantile(1 / 3))
against = df.slice(row, 1).select(tg.predict(model, output="shap", background=thin)).unnest("prediction")
print(against.select("bmi", "bp", "s5", "base_value"))

# What two columns share, and what is a column's alone: a column's line sums to its value.
pairs = df.select(tg.predict(model, output="shap_interactions")).unnest("prediction")
print(pairs.select(pl.col("bmi").struct.field("bmi", "s5")).select(pl.all().abs().mean()))

# What is predicted in the mean where a column is given each of some values: by these rows, and by the trees alone.
print(tg.partial_dependence(model, df, "bmi", grid=5))
print(model.partial_dependence(features=["bmi", "sex"], grid={"bmi": [20, 30], "sex": [1, 2]}))
