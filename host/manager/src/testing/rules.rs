//! [`FakeRules`]: what an API server says about access, for tests.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use parking_lot::Mutex;

use crate::access::{Asker, Decision, Question};

/// The rules of access of an API server; everything is allowed at first. A cheap clone.
#[derive(Clone, Default)]
pub(crate) struct FakeRules(Arc<Mutex<Rules>>);

#[derive(Default)]
struct Rules {
    /// What the questions that are denied contain.
    denied: Vec<String>,
    trouble: Option<String>,
    asked: Vec<String>,
}

impl FakeRules {
    /// From now on the questions with one of these texts are denied, and no others.
    pub(crate) fn deny(&self, questions: &[&str]) {
        self.0.lock().denied = questions.iter().map(ToString::to_string).collect();
    }

    /// Whether no question can be answered.
    pub(crate) fn set_trouble(&self, trouble: bool) {
        self.0.lock().trouble = trouble.then(|| "away".to_owned());
    }

    /// The questions asked so far.
    pub(crate) fn asked(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().asked)
    }
}

impl Asker for FakeRules {
    fn ask<'a>(&'a self, question: &'a Question) -> BoxFuture<'a, Result<Decision, String>> {
        let mut rules = self.0.lock();
        let text = question.to_string();
        let is_denied = rules.denied.iter().any(|denied| text.contains(denied));
        rules.asked.push(text);
        let answer = match &rules.trouble {
            Some(trouble) => Err(trouble.clone()),
            None if is_denied => Ok(Err("no rule".to_owned())),
            None => Ok(Ok(())),
        };
        Box::pin(async move { answer })
    }
}
