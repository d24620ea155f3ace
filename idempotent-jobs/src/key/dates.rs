//! Dates and times as parts of a key: one text a value, whichever crate holds it.
//!
//! Fractions always have nine digits; instants are written in UTC. Written out here, since a stored key
//! must not change with a crate's formatting or its features.

use std::borrow::Cow;

use super::{KeyPart, KeyValue};

/// A year beyond four digits, or before year 0, has its sign: `+10000`, `-0044`.
fn date(year: i32, month: u32, day: u32) -> String {
    let year = if (0..=9999).contains(&year) { format!("{year:04}") } else { format!("{year:+05}") };
    format!("{year}-{month:02}-{day:02}")
}

fn clock((hour, minute, second): (u32, u32, u32), nanosecond: u32) -> String {
    format!("{hour:02}:{minute:02}:{second:02}.{nanosecond:09}")
}

macro_rules! texts {
    ($($type:ty, |$value:ident| $text:expr;)*) => {$(
        impl KeyPart for $type {
            const KIND: &'static str = "text";
            fn value(&self) -> KeyValue<'_> {
                let $value = self;
                KeyValue::Text(Cow::Owned($text))
            }
        }
    )*};
}

#[cfg(feature = "chrono")]
mod of_chrono {
    use chrono::{DateTime, Datelike, NaiveDate, NaiveDateTime, NaiveTime, TimeZone, Timelike};

    use super::{Cow, KeyPart, KeyValue, clock, date};

    fn day(value: NaiveDate) -> String {
        date(value.year(), value.month(), value.day())
    }

    /// A leap second is written as chrono holds it, as second 59 and ten digits, since chrono allows it in any minute.
    fn time(value: NaiveTime) -> String {
        clock((value.hour(), value.minute(), value.second()), value.nanosecond())
    }

    fn moment(value: NaiveDateTime) -> String {
        format!("{}T{}", day(value.date()), time(value.time()))
    }

    texts! {
        NaiveDate, |value| day(*value);
        NaiveTime, |value| time(*value);
        NaiveDateTime, |value| moment(*value);
    }

    impl<Z: TimeZone> KeyPart for DateTime<Z> {
        const KIND: &'static str = "text";
        fn value(&self) -> KeyValue<'_> {
            KeyValue::Text(Cow::Owned(format!("{}Z", moment(self.naive_utc()))))
        }
    }
}

#[cfg(feature = "time")]
mod of_time {
    use time::{Date, OffsetDateTime, PrimitiveDateTime, Time};

    use super::{Cow, KeyPart, KeyValue, clock, date};

    fn day(value: Date) -> String {
        date(value.year(), u8::from(value.month()).into(), value.day().into())
    }

    fn clock_of(value: Time) -> String {
        clock((value.hour().into(), value.minute().into(), value.second().into()), value.nanosecond())
    }

    /// In UTC. The day is found by arithmetic: an instant at the edge of the crate's range, as a message may
    /// hold it, has no UTC value of the crate's own types, and asking for one panics.
    fn instant(value: OffsetDateTime) -> String {
        let nanoseconds = value.unix_timestamp_nanos();
        let days =
            i64::try_from(nanoseconds.div_euclid(86_400_000_000_000)).expect("the crate's range is a few million days");
        let (year, month, number) = civil(days);
        let of_day = nanoseconds.rem_euclid(86_400_000_000_000);
        let seconds = u32::try_from(of_day / 1_000_000_000).expect("a day has 86,400 seconds");
        let fraction = u32::try_from(of_day % 1_000_000_000).expect("a second has 10^9 nanoseconds");
        format!("{}T{}Z", date(year, month, number), clock((seconds / 3600, seconds / 60 % 60, seconds % 60), fraction))
    }

    /// Year, month and day of a day counted from 1970-01-01, in the proleptic Gregorian calendar
    /// (Howard Hinnant, `civil_from_days`: eras of 400 years that begin in March).
    fn civil(days: i64) -> (i32, u32, u32) {
        let days = days + 719_468;
        let era = days.div_euclid(146_097);
        let of_era = days.rem_euclid(146_097);
        let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
        let of_year = of_era - (365 * year + year / 4 - year / 100);
        let from_march = (5 * of_year + 2) / 153;
        let day = of_year - (153 * from_march + 2) / 5 + 1;
        let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
        let year = year + era * 400 + i64::from(month <= 2);
        let narrow = |value: i64| u32::try_from(value).expect("a month or a day");
        (i32::try_from(year).expect("the crate's range is a few thousand years"), narrow(month), narrow(day))
    }

    texts! {
        Date, |value| day(*value);
        Time, |value| clock_of(*value);
        PrimitiveDateTime, |value| format!("{}T{}", day(value.date()), clock_of(value.time()));
        OffsetDateTime, |value| instant(*value);
    }
}
