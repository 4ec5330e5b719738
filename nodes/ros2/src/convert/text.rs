//! `std_msgs/String` and text.

use std::borrow::Cow;

use afferent_messages::Text;

use crate::msg::std_msgs::String;

impl String<'_> {
    /// Replaces `text` by the text of the message, which is complete and outside a conversation.
    pub fn fill(&self, text: &mut Text) {
        (text.turn, text.is_last) = (0, true);
        text.text.clear();
        text.text.push_str(&self.data);
    }
}

impl<'t> From<&'t Text> for String<'t> {
    /// The text without its turn.
    fn from(text: &'t Text) -> Self {
        Self { data: Cow::Borrowed(&text.text) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_loses_its_turn() {
        let text = Text { turn: 7, text: "hey ✓".to_owned(), is_last: false };
        let mut again = text.clone();
        String::from(&text).fill(&mut again);
        assert_eq!(again, Text::from("hey ✓"));
    }
}
