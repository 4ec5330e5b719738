//! The fields of a payload type, read from the text of
//! [`WireCodec::layout`](afferent_graph::WireCodec::layout): a definition of a ROS 2 message, with a
//! line for bulk bytes.

/// Fields of a payload type.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Layout {
    pub(crate) fields: Vec<Field>,
    /// Name and type of the elements of the bulk bytes.
    pub(crate) bulk: Option<(String, Scalar)>,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Field {
    pub(crate) name: String,
    pub(crate) ty: Type,
    pub(crate) count: Count,
}

/// Number of values of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Count {
    One,
    Fixed(usize),
    Any,
}

/// Type of a value.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Type {
    Scalar(Scalar),
    Text,
    Struct(Vec<Field>),
}

/// Type of a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scalar {
    Bool,
    U8,
    I8,
    U16,
    I16,
    U32,
    I32,
    U64,
    I64,
    F32,
    F64,
}

impl Scalar {
    fn from_name(name: &str) -> Option<Self> {
        Some(match name {
            "bool" => Self::Bool,
            "uint8" | "byte" | "char" => Self::U8,
            "int8" => Self::I8,
            "uint16" => Self::U16,
            "int16" => Self::I16,
            "uint32" => Self::U32,
            "int32" => Self::I32,
            "uint64" => Self::U64,
            "int64" => Self::I64,
            "float32" => Self::F32,
            "float64" => Self::F64,
            _ => return None,
        })
    }

    /// Bytes of a value.
    pub(crate) fn size(self) -> usize {
        match self {
            Self::Bool | Self::U8 | Self::I8 => 1,
            Self::U16 | Self::I16 => 2,
            Self::U32 | Self::I32 | Self::F32 => 4,
            Self::U64 | Self::I64 | Self::F64 => 8,
        }
    }

    /// Type of the elements, as NumPy writes it.
    pub(crate) fn numpy(self) -> &'static str {
        match self {
            Self::Bool => "|b1",
            Self::U8 => "|u1",
            Self::I8 => "|i1",
            Self::U16 => "<u2",
            Self::I16 => "<i2",
            Self::U32 => "<u4",
            Self::I32 => "<i4",
            Self::U64 => "<u8",
            Self::I64 => "<i8",
            Self::F32 => "<f4",
            Self::F64 => "<f8",
        }
    }
}

/// A line of the definition, without its comment.
struct Line<'t> {
    indent: usize,
    text: &'t str,
}

impl Layout {
    /// Reads the text of a layout, whose first line names the payload type.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let text = text.split_once('\n').map_or("", |(_, rest)| rest);
        let mut sections = text.split("\n====");
        let main = lines(sections.next().unwrap_or_default());
        // Definitions that others use, by name without the package.
        let others: Vec<(&str, Vec<Line<'_>>)> = sections
            .filter_map(|section| {
                let (_, section) = section.split_once("MSG: ")?;
                let (name, body) = section.split_once('\n')?;
                Some((unqualified(name.trim()), lines(body)))
            })
            .collect();
        let (bulk, fields): (Vec<_>, Vec<_>) =
            main.into_iter().partition(|line| line.text.starts_with("bulk "));
        let mut bulks = bulk.iter().map(|line| {
            let (ty, name) = line.text["bulk ".len()..].split_once(' ')?;
            Some((name.trim().to_owned(), Scalar::from_name(ty.strip_suffix("[]")?)?))
        });
        let bulk = bulks.next().map(|bulk| bulk.ok_or("a line of bulk bytes is wrong"));
        Ok(Self { fields: read_fields(&fields, &others, 0)?, bulk: bulk.transpose()? })
    }
}

/// Name of a type without its package.
fn unqualified(name: &str) -> &str {
    name.rsplit('/').next().unwrap_or(name)
}

fn lines(text: &str) -> Vec<Line<'_>> {
    let code = text.lines().map(|line| line.split('#').next().unwrap_or_default().trim_end());
    let lines = code
        .map(|line| Line { indent: line.len() - line.trim_start().len(), text: line.trim_start() });
    // Constants, such as `uint8 START=0`, have no bytes.
    let is_constant = |text: &str| text.split_once(' ').is_some_and(|(_, name)| name.contains('='));
    lines.filter(|line| !line.text.is_empty() && !is_constant(line.text)).collect()
}

/// Deepest nesting of types.
const MAX_DEPTH: usize = 8;

fn read_fields(
    lines: &[Line<'_>],
    others: &[(&str, Vec<Line<'_>>)],
    depth: usize,
) -> Result<Vec<Field>, String> {
    if depth > MAX_DEPTH {
        return Err("types are nested too deeply".to_owned());
    }
    let mut fields = Vec::new();
    let mut rest = lines;
    while let Some((line, after)) = rest.split_first() {
        let inner = after.iter().take_while(|inner| inner.indent > line.indent).count();
        let (inner, after) = after.split_at(inner);
        rest = after;
        let wrong = || format!("the line {:?} of a layout is wrong", line.text);
        let (ty, name) = line.text.split_once(' ').ok_or_else(wrong)?;
        let name = name.trim().trim_end_matches(':').to_owned();
        let (ty, count) = match ty.split_once('[') {
            None => (ty, Count::One),
            Some((ty, count)) if count == "]" || count.starts_with("<=") => (ty, Count::Any),
            Some((ty, count)) => {
                let count = count.trim_end_matches(']').parse().map_err(|_| wrong())?;
                (ty, Count::Fixed(count))
            }
        };
        let ty = match (Scalar::from_name(ty), ty) {
            (Some(scalar), _) => Type::Scalar(scalar),
            (None, "string") => Type::Text,
            (None, _) if !inner.is_empty() => Type::Struct(read_fields(inner, others, depth + 1)?),
            (
                None,
                "time" | "builtin_interfaces/Time" | "duration" | "builtin_interfaces/Duration",
            ) => {
                let part = |name: &str, scalar| Field {
                    name: name.to_owned(),
                    ty: Type::Scalar(scalar),
                    count: Count::One,
                };
                Type::Struct(vec![part("sec", Scalar::I32), part("nanosec", Scalar::U32)])
            }
            (None, ty) => {
                let found = others.iter().find(|(name, _)| *name == unqualified(ty));
                let (_, lines) = found.ok_or_else(|| format!("the type {ty} is not defined"))?;
                Type::Struct(read_fields(lines, others, depth + 1)?)
            }
        };
        fields.push(Field { name, ty, count });
    }
    Ok(fields)
}
