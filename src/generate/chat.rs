//! `generate --chat`: a conversation that the model sees whole at every turn. Lines come from a person at a terminal or from a
//! pipe; the model's own template says how they become a prompt.

use super::template::{plain, Message, PLAIN_STOP};
use super::{generate, End, Model, Options, Statistics};
use crate::failure::{Code, Failure, Result};
use crate::terminal;
use candle_core::Device;
use std::io::{BufRead, IsTerminal};
use std::ops::ControlFlow;

/// Talks until standard input ends or someone says /exit.
pub fn run(model: &mut Model, device: &Device, system: Option<String>, options: &Options) -> Result<()> {
    if model.template.is_none() {
        terminal::note("the model has no chat template: the turns are written as \"User:\" and \"Assistant:\"");
    }
    let beginning: Vec<Message> = system.into_iter().map(|content| Message { role: "system", content }).collect();
    let mut conversation = beginning.clone();
    let is_person = std::io::stdin().is_terminal();
    let mut lines = std::io::stdin().lock();
    loop {
        if is_person {
            terminal::ask("> ");
        }
        let mut line = Vec::new();
        let read = lines.read_until(b'\n', &mut line);
        if read.map_err(|error| Failure::input(format!("standard input cannot be read: {error}")))? == 0 {
            return Ok(());
        }
        let line = terminal::utf8(line, "standard input")?;
        match line.trim() {
            "" => continue,
            "/exit" => return Ok(()),
            "/reset" => conversation.clone_from(&beginning),
            said => {
                conversation.push(Message { role: "user", content: said.to_owned() });
                let answered = terminal::busy(|| answer(model, device, &mut conversation, beginning.len(), options));
                let (reply, statistics) = match answered {
                    // A person can say it in other words.
                    Err(failure) if is_person && failure.code == Code::Usage => {
                        terminal::fail(&failure.sentence);
                        conversation.pop();
                        continue;
                    }
                    answered => answered?,
                };
                terminal::print("\n")?;
                terminal::note(&statistics.to_string());
                conversation.push(Message { role: "assistant", content: reply });
                match statistics.end {
                    End::Closed => return Ok(()),
                    // A person who stops a long answer wants to go on talking; a script wants to end.
                    end if !is_person => end.outcome()?,
                    _ => (),
                }
            }
        }
    }
}

/// Prints the model's answer to the conversation, forgetting its oldest turns (but not the `kept` first messages) if they do not fit.
fn answer(
    model: &mut Model,
    device: &Device,
    conversation: &mut Vec<Message>,
    kept: usize,
    options: &Options,
) -> Result<(String, Statistics)> {
    let mut forgotten = 0;
    let tokens = loop {
        let prompt = match &model.template {
            Some(template) => template.render(conversation)?,
            None => plain(conversation),
        };
        let tokens = model.encode(&prompt)?;
        // An answer wants room too.
        if tokens.len() + options.max_tokens.min(model.context / 4) < model.context || conversation.len() < kept + 3 {
            break tokens;
        }
        conversation.drain(kept..kept + 2);
        forgotten += 1;
    };
    if forgotten > 0 {
        terminal::note(&format!(
            "the context of {} tokens is full: the oldest {forgotten} of the model's answers and what they answered are forgotten",
            model.context
        ));
    }
    let stop = if model.template.is_some() { None } else { Some(PLAIN_STOP) };
    let mut reply = Reply::new(stop);
    let statistics = generate(model, device, tokens, options, |piece| {
        let (printable, is_over) = reply.push(piece);
        let flow = terminal::stream(&printable)?;
        Ok(if is_over && flow.is_continue() { ControlFlow::Break(End::Model) } else { flow })
    })?;
    terminal::print(&reply.rest())?;
    Ok((reply.text.trim().to_owned(), statistics))
}

/// A reply that ends where a certain text begins. What may be the beginning of that text is held back.
struct Reply {
    text: String,
    printed: usize,
    stop: Option<&'static str>,
}

impl Reply {
    fn new(stop: Option<&'static str>) -> Self {
        Self { text: String::new(), printed: 0, stop }
    }

    /// What can be printed now, and whether the reply is over.
    fn push(&mut self, piece: &str) -> (String, bool) {
        self.text += piece;
        // Models start with a space or a line of their own.
        if self.printed == 0 {
            self.text = self.text.trim_start().to_owned();
        }
        let stop = self.stop.unwrap_or_default();
        let is_over = match self.text.find(stop).filter(|_| !stop.is_empty()) {
            Some(end) => {
                self.text.truncate(end);
                true
            }
            None => false,
        };
        let held =
            if is_over { 0 } else { (1..stop.len()).rev().find(|n| self.text.ends_with(&stop[..*n])).unwrap_or(0) };
        let upto = (self.text.len() - held).max(self.printed);
        let printable = self.text[self.printed..upto].to_owned();
        self.printed = upto;
        (printable, is_over)
    }

    /// What was held back for nothing.
    fn rest(&self) -> String {
        self.text[self.printed..].to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::{Reply, PLAIN_STOP};

    #[test]
    fn a_reply_ends_where_the_model_speaks_for_the_user() {
        let mut reply = Reply::new(Some(PLAIN_STOP));
        let pieces = [" Good day", ".\nUs", "eful", " things.\n", "User", ": Who?"];
        let printed: Vec<(String, bool)> = pieces.iter().map(|piece| reply.push(piece)).collect();
        let texts: Vec<&str> = printed.iter().map(|(text, _)| text.as_str()).collect();
        assert_eq!(texts, ["Good day", ".", "\nUseful", " things.", "", ""]);
        assert_eq!(printed.iter().position(|(_, is_over)| *is_over), Some(5));
        assert_eq!(reply.text, "Good day.\nUseful things.");
        assert_eq!(reply.rest(), "");
    }

    #[test]
    fn a_reply_without_a_stop_is_printed_whole() {
        let mut reply = Reply::new(None);
        assert_eq!(reply.push("\n"), (String::new(), false));
        assert_eq!(reply.push("Yes.\nUser:"), ("Yes.\nUser:".to_owned(), false));
    }

    #[test]
    fn what_was_held_back_for_nothing_comes_at_the_end() {
        let mut reply = Reply::new(Some(PLAIN_STOP));
        assert_eq!(reply.push("Yes\nUse").0, "Yes");
        assert_eq!(reply.rest(), "\nUse");
    }
}
