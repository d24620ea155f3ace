use super::{Line, Mistake, is_date, parse};

const HEADER: &str = "order_id,customer_id,ordered_on,quantity,amount_cents";

fn first() -> Line {
    Line { order_id: 1, customer_id: 4, ordered_on: "1997-01-01".to_owned(), quantity: 2, amount_cents: 2933 }
}

fn mistakes(body: &str) -> Vec<String> {
    let found = parse(format!("{HEADER}\n{body}").as_bytes()).unwrap_err();
    found.into_iter().map(|Mistake { line, why }| format!("{line}: {why}")).collect()
}

#[test]
fn line_ends_of_both_kinds_a_missing_last_one_a_byte_order_mark_and_quotes_are_read() {
    for text in [
        format!("{HEADER}\n1,4,1997-01-01,2,2933\n"),
        format!("{HEADER}\n1,4,1997-01-01,2,2933"),
        format!("{HEADER}\r\n1,4,1997-01-01,2,2933\r\n"),
        format!("\u{feff}{HEADER}\r\n1, 4,1997-01-01,2,2933"),
        format!("{HEADER}\n\"1\",\"4\",\"1997-01-01\",\"2\",\"2933\"\n"),
    ] {
        assert_eq!(parse(text.as_bytes()).unwrap(), [first()], "{text:?}");
    }
}

#[test]
fn each_bad_line_is_named_by_its_number() {
    let good = "1,4,1997-01-01,2,2933\n";
    let cases = [
        ("2,4,1997-01-01,2\n", "3: 5 columns are needed, found 4"),
        ("2,4,1997-01-01,2,5,6\n", "3: 5 columns are needed, found 6"),
        ("2,4,1997-01-01,2,5.5\n", "3: amount_cents `5.5` is not a whole number"),
        ("2,4,1997-01-01,2,\n", "3: amount_cents `` is not a whole number"),
        ("2,4,1997-01-01,2,+5\n", "3: amount_cents `+5` is not a whole number"),
        ("2,4,1997-01-01,2,-5\n", "3: amount_cents `-5` is negative"),
        (
            "2,4,1997-01-01,2,9223372036854775808\n",
            "3: amount_cents `9223372036854775808` is more than 9,223,372,036,854,775,807",
        ),
        ("2,4,1997-02-29,2,5\n", "3: ordered_on `1997-02-29` is not a date like 1997-01-31"),
        ("1,4,1997-01-01,2,2933\n", "3: order_id 1 was used on line 2 already"),
        ("\n2,4,1997-01-01,2,5\n", "3: the line is empty"),
        ("2,4,1997-01-01,2,9223372036854775807\n", "3: the amounts up to this line add up to more than 64 bits hold"),
    ];
    for (bad, expected) in cases {
        assert_eq!(mistakes(&format!("{good}{bad}")), [expected]);
    }
}

#[test]
fn all_bad_lines_are_found_at_once_whatever_their_line_ends() {
    assert_eq!(
        mistakes("x,4,1997-01-01,2,1\r\n2,4,1997-01-01,2,1\r\n3,y,1997-01-01,2,1\r\n"),
        ["2: order_id `x` is not a whole number", "4: customer_id `y` is not a whole number"]
    );
}

#[test]
fn a_line_that_is_not_utf_8_is_named() {
    let mut text = format!("{HEADER}\n1,4,1997-01-01,2,2933\n2,4,1997-01-01,2,").into_bytes();
    text.push(0xff);
    assert_eq!(parse(&text).unwrap_err(), [Mistake { line: 3, why: "not UTF-8".to_owned() }]);
}

#[test]
fn a_file_without_header_or_orders_is_refused() {
    let why = |text: &str| parse(text.as_bytes()).unwrap_err().remove(0).why;
    assert!(why("").starts_with("the file has no header"));
    assert!(why("1,4,1997-01-01,2,2933\n").starts_with("the header is to be"));
    assert_eq!(why(HEADER), "the file has no orders");
    assert_eq!(why(&format!("{HEADER}\n")), "the file has no orders");
}

#[test]
fn dates_are_days_of_the_calendar() {
    for day in ["1996-02-29", "2000-02-29", "1997-12-31"] {
        assert!(is_date(day), "{day}");
    }
    for day in [
        "1900-02-29",
        "1997-00-10",
        "1997-13-01",
        "1997-04-31",
        "1997-1-01",
        "1997-01-00",
        "97-01-01",
        "1997/01/01",
        "１997-01",
    ] {
        assert!(!is_date(day), "{day}");
    }
}
