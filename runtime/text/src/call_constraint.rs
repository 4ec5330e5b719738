//! Constrains a tool call to valid JSON with the names of the tools and of their arguments.

/// Tool with the names of its arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolNames {
    /// Name of the tool.
    pub name: String,
    /// Names of the arguments. Each may occur once; none is required.
    pub arguments: Vec<String>,
}

/// Most consecutive whitespace bytes, so that a model cannot generate them forever.
const MAX_SPACES: u8 = 16;

/// Deepest nesting of values in arguments.
const MAX_DEPTH: usize = 16;

/// Most tools, and most arguments of a tool: sets of them are bits.
const MAX_NAMES: usize = 64;

/// Reads a tool call byte by byte, and rejects what no valid call begins with:
/// `{"name": TOOL, "arguments": {ARGUMENT: VALUE, …}}`.
///
/// ```
/// use afferent_text::{CallConstraint, ToolNames};
///
/// let tool = ToolNames { name: "find".into(), arguments: vec!["thing".into()] };
/// let mut call = CallConstraint::new(vec![tool], "arguments").unwrap();
/// assert!(call.accepts(b"{\"name\": \"fi") && !call.accepts(b"{\"name\": \"open"));
/// assert!(call.push(b"{\"name\": \"find\", \"arguments\": {"));
/// assert!(call.accepts(b"\"thing\": \"keys\"}}") && !call.accepts(b"\"room"));
/// ```
#[derive(Debug, Clone)]
pub struct CallConstraint {
    tools: std::sync::Arc<[ToolNames]>,
    /// Name of the field of the arguments, quoted.
    field: std::sync::Arc<str>,
    machine: Machine,
}

/// State of the reader: frames to read, the next one last.
#[derive(Debug, Clone)]
struct Machine {
    frames: Vec<Frame>,
    tool: usize,
    /// Arguments of the tool that occurred, as bits.
    used: u64,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Frame {
    /// The rest of a text from this byte on.
    Text(&'static str, usize),
    /// The rest of the field name from this byte on.
    Field(usize),
    /// Whitespace, with the number of its bytes so far.
    Space(u8),
    /// Names that match so far, as bits, and the number of matched bytes. True for a tool, false for
    /// an argument.
    Name(bool, u64, usize),
    /// An argument or the end of the arguments.
    FirstArgument,
    /// A comma or the end of the arguments.
    NextArgument,
    Value,
    /// String: 0 in text, 1 after a backslash, 2 to 5 before that many less one hexadecimal digits.
    String(u8),
    Number(Number),
    /// First key or end, and comma or end, of an object in a value.
    FirstKey,
    NextKey,
    /// First item or end, and comma or end, of an array.
    FirstItem,
    NextItem,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Number {
    Sign,
    Zero,
    Integer,
    Point,
    Fraction,
    Exponent,
    ExponentSign,
    ExponentDigits,
}

/// Result of a frame for one byte.
enum Step {
    /// The byte belongs to the frame or to those that it pushed.
    Taken,
    /// The frame has ended before the byte.
    Ended,
    Rejected,
}

impl CallConstraint {
    /// A call of one of `tools`, with the arguments in `field`; `None` for no tools, more than 64
    /// tools, or more than 64 arguments of a tool.
    pub fn new(tools: Vec<ToolNames>, field: &str) -> Option<Self> {
        let is_small = tools.iter().all(|tool| tool.arguments.len() <= MAX_NAMES);
        if tools.is_empty() || tools.len() > MAX_NAMES || !is_small {
            return None;
        }
        let steps = [
            Frame::Space(0),
            Frame::Text("{", 0),
            Frame::Space(0),
            Frame::Text("\"name\"", 0),
            Frame::Space(0),
            Frame::Text(":", 0),
            Frame::Space(0),
            Frame::Name(true, all(tools.len()), 0),
            Frame::Space(0),
            Frame::Text(",", 0),
            Frame::Space(0),
            Frame::Field(0),
            Frame::Space(0),
            Frame::Text(":", 0),
            Frame::Space(0),
            Frame::Text("{", 0),
            Frame::Space(0),
            Frame::FirstArgument,
            Frame::Space(0),
            Frame::Text("}", 0),
        ];
        let frames = steps.into_iter().rev().collect();
        let machine = Machine { frames, tool: 0, used: 0 };
        Some(Self { tools: tools.into(), field: format!("\"{field}\"").into(), machine })
    }

    /// True if the call is complete.
    pub fn is_complete(&self) -> bool {
        self.machine.frames.is_empty()
    }

    /// True if a valid call may go on with `bytes`. A complete call accepts nothing.
    pub fn accepts(&self, bytes: &[u8]) -> bool {
        let mut machine = self.machine.clone();
        bytes.iter().all(|&byte| self.read(&mut machine, byte))
    }

    /// Adds `bytes`. Returns false if no valid call goes on with them.
    pub fn push(&mut self, bytes: &[u8]) -> bool {
        let mut machine = self.machine.clone();
        let is_valid = bytes.iter().all(|&byte| self.read(&mut machine, byte));
        self.machine = machine;
        is_valid
    }

    /// Bytes that a valid call may go on with.
    pub(crate) fn next_bytes(&self) -> [bool; 256] {
        let mut next = [false; 256];
        for (byte, is_next) in (0..=u8::MAX).zip(&mut next) {
            *is_next = self.accepts(&[byte]);
        }
        next
    }

    fn read(&self, machine: &mut Machine, byte: u8) -> bool {
        loop {
            let Some(frame) = machine.frames.pop() else { return false };
            match self.step(machine, frame, byte) {
                Step::Taken => return true,
                Step::Ended => {}
                Step::Rejected => return false,
            }
        }
    }

    /// Gives `byte` to `frame`, which was popped.
    fn step(&self, machine: &mut Machine, frame: Frame, byte: u8) -> Step {
        let push = |machine: &mut Machine, frames: &[Frame]| {
            machine.frames.extend(frames.iter().rev());
            Step::Taken
        };
        match frame {
            Frame::Text(text, at) => match text.as_bytes().get(at) {
                Some(&expected) if expected == byte => {
                    let is_last = at + 1 == text.len();
                    if is_last { Step::Taken } else { push(machine, &[Frame::Text(text, at + 1)]) }
                }
                _ => Step::Rejected,
            },
            Frame::Field(at) => match self.field.as_bytes().get(at) {
                Some(&expected) if expected == byte => {
                    let is_last = at + 1 == self.field.len();
                    if is_last { Step::Taken } else { push(machine, &[Frame::Field(at + 1)]) }
                }
                _ => Step::Rejected,
            },
            Frame::Space(count) if byte.is_ascii_whitespace() && byte != b'\x0c' => {
                if count == MAX_SPACES {
                    return Step::Rejected;
                }
                push(machine, &[Frame::Space(count + 1)])
            }
            Frame::Space(_) => Step::Ended,
            Frame::Name(is_tool, alive, at) => self.name(machine, is_tool, alive, at, byte),
            Frame::FirstArgument if byte == b'}' => Step::Taken,
            Frame::FirstArgument => {
                let unused = all(self.tools[machine.tool].arguments.len()) & !machine.used;
                let name = Frame::Name(false, unused, 0);
                let rest = [
                    name,
                    Frame::Space(0),
                    Frame::Text(":", 0),
                    Frame::Space(0),
                    Frame::Value,
                    Frame::Space(0),
                    Frame::NextArgument,
                ];
                machine.frames.extend(rest.iter().rev());
                Step::Ended
            }
            Frame::NextArgument if byte == b'}' => Step::Taken,
            Frame::NextArgument if byte == b',' => {
                // A comma needs another argument, which `Name` rejects if there is none.
                let unused = all(self.tools[machine.tool].arguments.len()) & !machine.used;
                if unused == 0 {
                    return Step::Rejected;
                }
                let rest = [
                    Frame::Space(0),
                    Frame::Name(false, unused, 0),
                    Frame::Space(0),
                    Frame::Text(":", 0),
                    Frame::Space(0),
                    Frame::Value,
                    Frame::Space(0),
                    Frame::NextArgument,
                ];
                push(machine, &rest)
            }
            Frame::NextArgument => Step::Rejected,
            other => value_step(machine, other, byte),
        }
    }

    /// A quoted name of a tool or an argument.
    fn name(&self, machine: &mut Machine, is_tool: bool, alive: u64, at: usize, byte: u8) -> Step {
        if at == 0 {
            let is_valid = byte == b'"' && alive != 0;
            machine.frames.push(Frame::Name(is_tool, alive, 1));
            return if is_valid { Step::Taken } else { Step::Rejected };
        }
        let name = |index: usize| match is_tool {
            true => self.tools[index].name.as_bytes(),
            false => self.tools[machine.tool].arguments[index].as_bytes(),
        };
        let len = match is_tool {
            true => self.tools.len(),
            false => self.tools[machine.tool].arguments.len(),
        };
        let is_alive = |index: &usize| alive >> index & 1 == 1;
        if byte == b'"' {
            let whole = (0..len).filter(is_alive).find(|&index| name(index).len() == at - 1);
            return match whole {
                Some(index) if is_tool => {
                    machine.tool = index;
                    Step::Taken
                }
                Some(index) => {
                    machine.used |= 1 << index;
                    Step::Taken
                }
                None => Step::Rejected,
            };
        }
        let matching = (0..len).filter(is_alive);
        let matching = matching.filter(|&index| name(index).get(at - 1) == Some(&byte));
        let alive = matching.fold(0, |bits, index| bits | 1 << index);
        if alive == 0 {
            return Step::Rejected;
        }
        machine.frames.push(Frame::Name(is_tool, alive, at + 1));
        Step::Taken
    }
}

/// Gives `byte` to a frame of a value.
fn value_step(machine: &mut Machine, frame: Frame, byte: u8) -> Step {
    let key = [
        Frame::Space(0),
        Frame::Text("\"", 0),
        Frame::String(0),
        Frame::Space(0),
        Frame::Text(":", 0),
        Frame::Space(0),
        Frame::Value,
        Frame::Space(0),
        Frame::NextKey,
    ];
    let item = [Frame::Space(0), Frame::Value, Frame::Space(0), Frame::NextItem];
    let is_deep = frame == Frame::Value && depth(machine) >= MAX_DEPTH;
    let mut push = |frames: &[Frame], step: Step| {
        machine.frames.extend(frames.iter().rev());
        step
    };
    match (frame, byte) {
        (Frame::Value, b'"') => push(&[Frame::String(0)], Step::Taken),
        (Frame::Value, b'{' | b'[') if is_deep => Step::Rejected,
        (Frame::Value, b'{') => push(&[Frame::Space(0), Frame::FirstKey], Step::Taken),
        (Frame::Value, b'[') => push(&[Frame::Space(0), Frame::FirstItem], Step::Taken),
        (Frame::Value, b't') => push(&[Frame::Text("true", 1)], Step::Taken),
        (Frame::Value, b'f') => push(&[Frame::Text("false", 1)], Step::Taken),
        (Frame::Value, b'n') => push(&[Frame::Text("null", 1)], Step::Taken),
        (Frame::Value, b'-') => push(&[Frame::Number(Number::Sign)], Step::Taken),
        (Frame::Value, b'0') => push(&[Frame::Number(Number::Zero)], Step::Taken),
        (Frame::Value, b'1'..=b'9') => push(&[Frame::Number(Number::Integer)], Step::Taken),
        (Frame::FirstKey | Frame::NextKey, b'}') | (Frame::FirstItem | Frame::NextItem, b']') => {
            Step::Taken
        }
        (Frame::FirstKey, _) => push(&key, Step::Ended),
        (Frame::NextKey, b',') => push(&key, Step::Taken),
        (Frame::FirstItem, _) => push(&item, Step::Ended),
        (Frame::NextItem, b',') => push(&item, Step::Taken),
        (Frame::String(0), b'"') => Step::Taken,
        (Frame::String(0), b'\\') => push(&[Frame::String(1)], Step::Taken),
        (Frame::String(0), 0x20..) => push(&[Frame::String(0)], Step::Taken),
        (Frame::String(1), b'u') => push(&[Frame::String(5)], Step::Taken),
        (Frame::String(1), b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => {
            push(&[Frame::String(0)], Step::Taken)
        }
        (Frame::String(left @ 2..), _) if byte.is_ascii_hexdigit() => {
            push(&[Frame::String(if left == 2 { 0 } else { left - 1 })], Step::Taken)
        }
        (Frame::Number(number), _) => match next_number(number, byte) {
            Some(next) => push(&[Frame::Number(next)], Step::Taken),
            None if is_number_end(number) => Step::Ended,
            None => Step::Rejected,
        },
        _ => Step::Rejected,
    }
}

/// State of a number after `byte`.
fn next_number(number: Number, byte: u8) -> Option<Number> {
    use Number::*;
    match (number, byte) {
        (Sign, b'0') => Some(Zero),
        (Sign, b'1'..=b'9') | (Integer, b'0'..=b'9') => Some(Integer),
        (Zero | Integer, b'.') => Some(Point),
        (Point | Fraction, b'0'..=b'9') => Some(Fraction),
        (Zero | Integer | Fraction, b'e' | b'E') => Some(Exponent),
        (Exponent, b'+' | b'-') => Some(ExponentSign),
        (Exponent | ExponentSign | ExponentDigits, b'0'..=b'9') => Some(ExponentDigits),
        _ => None,
    }
}

/// True if a number may end in this state.
fn is_number_end(number: Number) -> bool {
    matches!(number, Number::Zero | Number::Integer | Number::Fraction | Number::ExponentDigits)
}

/// Number of objects and arrays in a value that are open.
fn depth(machine: &Machine) -> usize {
    let is_open = |frame: &&Frame| matches!(frame, Frame::NextKey | Frame::NextItem);
    machine.frames.iter().filter(is_open).count()
}

/// The lowest `count` bits.
fn all(count: usize) -> u64 {
    if count >= MAX_NAMES { u64::MAX } else { (1 << count) - 1 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn constraint() -> CallConstraint {
        let tool = |name: &str, arguments: &[&str]| ToolNames {
            name: name.to_owned(),
            arguments: arguments.iter().map(|&name| name.to_owned()).collect(),
        };
        let tools = vec![tool("set", &["x", "xy", "é"]), tool("set_all", &[]), tool("now", &["x"])];
        CallConstraint::new(tools, "arguments").expect("few tools")
    }

    /// Checks the longest prefix of `text` that is accepted, and whether it is complete.
    fn check(text: &str, accepted: usize, is_complete: bool) {
        let mut constraint = constraint();
        let mut len = 0;
        for &byte in text.as_bytes() {
            assert_eq!(constraint.accepts(&[byte]), constraint.next_bytes()[usize::from(byte)]);
            if !constraint.accepts(&[byte]) {
                break;
            }
            assert!(constraint.push(&[byte]));
            len += 1;
        }
        assert_eq!((len, constraint.is_complete()), (accepted, is_complete), "{text}");
    }

    #[test]
    fn valid_calls_are_accepted() {
        for text in [
            r#"{"name":"now","arguments":{}}"#,
            r#" { "name" : "set_all" , "arguments" : { } }"#,
            r#"{"name": "set", "arguments": {"xy": 1, "x": -0.5e+10, "é": "ü\n\u00e9\""}}"#,
            r#"{"name": "set", "arguments": {"x": {"a": [1, true, {}, []], "b": null}}}"#,
        ] {
            check(text, text.len(), true);
            let value: serde_json::Value = serde_json::from_str(text).expect("valid JSON");
            assert!(value["arguments"].is_object());
        }
    }

    #[test]
    fn the_first_wrong_byte_is_rejected() {
        let begin = r#"{"name": "set", "arguments": {"#;
        let at = begin.len();
        for (rest, accepted) in [
            (r#""z": 1"#, 1),
            (r#""x": 1, "x": 2"#, 10), // `xy` goes on with `x`
            (r#""x": 01"#, 6),
            (r#""x": 1.}"#, 7),
            (r#""x": -}"#, 6),
            (r#""x": tru3"#, 8),
            (r#""x": "a\q""#, 8),
            (r#""x": "\u00g0""#, 10),
            ("\"x\": \"a\nb\"", 7),
            (r#""x": [1,]"#, 8),
            (r#""x": {1: 2}"#, 6),
            (r#""x" 1"#, 4),
            (r#"}} "#, 2),
            (r#", "x": 1"#, 0),
        ] {
            check(&format!("{begin}{rest}"), at + accepted, rest.starts_with("}}"));
        }
        check(r#"{"name": "other""#, 10, false);
        check(r#"{"name": "se""#, 12, false);
        check(r#"{"arguments""#, 2, false);
        check(r#"{"name": "now", "arguments": {"x": 1, "x""#, 36, false);
        check(&format!("{{{}", " ".repeat(40)), 17, false);
        let deep = format!("{begin}\"x\": {}", "[".repeat(40));
        check(&deep, at + 5 + MAX_DEPTH, false);
    }

    #[test]
    fn too_many_names_are_refused() {
        let tool = |count: usize| ToolNames {
            name: "t".to_owned(),
            arguments: (0..count).map(|number| number.to_string()).collect(),
        };
        assert!(CallConstraint::new(vec![], "arguments").is_none());
        assert!(CallConstraint::new(vec![tool(65)], "arguments").is_none());
        assert!(CallConstraint::new(vec![tool(64)], "arguments").is_some());
    }
}
