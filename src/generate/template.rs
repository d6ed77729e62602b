//! How a model wants a conversation written: the template from its files, which are Jinja as Python's libraries run it, or a
//! plain one for models that have none.

use crate::failure::{Failure, Result};
use minijinja::syntax::SyntaxConfig;
use minijinja::{context, Environment, ErrorKind, Value};

/// One turn of a conversation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// `system`, `user` or `assistant`.
    pub role: &'static str,
    /// What was said.
    pub content: String,
}

/// A template that compiled.
pub struct Template {
    environment: Environment<'static>,
    first: String,
    last: String,
}

impl Template {
    /// Compiles the template of `model`; `first` and `last` are the texts of its first and its end token.
    pub fn new(source: &str, first: String, last: String, model: &str) -> Result<Self> {
        let mut environment = Environment::new();
        // As Hugging Face's own tools set it up, and as templates are therefore written.
        let syntax = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build();
        let refuse =
            |error: minijinja::Error| Failure::input(format!("the chat template of {model} cannot be used: {error}"));
        environment.set_syntax(syntax.map_err(refuse)?);
        environment.set_unknown_method_callback(minijinja_contrib::pycompat::unknown_method_callback);
        environment.add_function(
            "raise_exception",
            |sentence: String| -> std::result::Result<String, minijinja::Error> {
                Err(minijinja::Error::new(ErrorKind::InvalidOperation, sentence))
            },
        );
        environment.add_template_owned("chat", source.to_owned()).map_err(refuse)?;
        Ok(Self { environment, first, last })
    }

    /// The conversation as a prompt for the next reply.
    pub fn render(&self, conversation: &[Message]) -> Result<String> {
        let messages: Vec<Value> =
            conversation.iter().map(|turn| context! { role => turn.role, content => turn.content.as_str() }).collect();
        let rendered = self.environment.get_template("chat").and_then(|template| {
            template.render(context! {
                messages => messages,
                add_generation_prompt => true,
                bos_token => self.first.as_str(),
                eos_token => self.last.as_str(),
            })
        });
        rendered.map_err(|error| {
            Failure::input(format!(
                "the model's chat template refuses this conversation: {}",
                error.detail().unwrap_or("it fails")
            ))
        })
    }
}

/// What a model without a template gets. A reply ends where the model starts to speak for the user.
pub const PLAIN_STOP: &str = "\nUser:";

/// A conversation in plain words.
pub fn plain(conversation: &[Message]) -> String {
    let mut text = String::new();
    for turn in conversation {
        text += &match turn.role {
            "system" => format!("{}\n\n", turn.content),
            "user" => format!("User: {}\n", turn.content),
            _ => format!("Assistant: {}\n", turn.content),
        };
    }
    text + "Assistant:"
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHATML: &str = "{%- for message in messages %}\n    \
        {{- '<|im_start|>' + message['role'] + '\\n' + message.content.strip() + '<|im_end|>\\n' }}\n\
        {%- endfor %}\n\
        {%- if add_generation_prompt %}\n    {{- '<|im_start|>assistant\\n' }}\n{%- endif %}\n";

    fn conversation() -> Vec<Message> {
        [("system", "Be brief."), ("user", " Hello? "), ("assistant", "Yes."), ("user", "Who?")]
            .map(|(role, content)| Message { role, content: content.to_owned() })
            .to_vec()
    }

    #[test]
    fn a_template_with_python_methods_renders_a_conversation() {
        let template = Template::new(CHATML, "<s>".into(), "</s>".into(), "a model").expect("it compiles");
        assert_eq!(
            template.render(&conversation()).expect("it renders"),
            "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHello?<|im_end|>\n\
             <|im_start|>assistant\nYes.<|im_end|>\n<|im_start|>user\nWho?<|im_end|>\n<|im_start|>assistant\n"
        );
    }

    #[test]
    fn a_template_may_name_the_special_tokens_and_refuse() {
        let source =
            "{{ bos_token }}{% if messages[0].role == 'system' %}{{ raise_exception('no system prompt') }}{% endif %}";
        let template = Template::new(source, "<s>".into(), "</s>".into(), "a model").expect("it compiles");
        let refused = template.render(&conversation()).expect_err("a system prompt is refused").sentence;
        assert!(refused.contains("no system prompt"), "{refused}");
        assert_eq!(template.render(&conversation()[1..]).expect("without one it renders"), "<s>");
    }

    #[test]
    fn a_template_that_is_none_is_refused_with_the_models_name() {
        let refused = Template::new("{% for %}", String::new(), String::new(), "x.gguf").err().expect("not Jinja");
        assert!(refused.sentence.contains("x.gguf"), "{refused}");
    }

    #[test]
    fn without_a_template_the_turns_have_plain_names() {
        assert_eq!(plain(&conversation()[..2]), "Be brief.\n\nUser:  Hello? \nAssistant:");
    }
}
