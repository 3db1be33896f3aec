//! [`JoinHandle`]: the result of a task.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use async_task::{FallibleTask, Task};

/// Waits for a task. A task whose handle is dropped goes on.
pub struct JoinHandle<T> {
    /// None once it was dropped or aborted.
    task: Option<FallibleTask<T>>,
}

/// Waits for a task, and drops the task with the handle.
#[derive(Debug)]
#[must_use]
pub struct AbortOnDrop<T>(JoinHandle<T>);

impl<T> JoinHandle<T> {
    pub(crate) fn new(task: Task<T>) -> Self {
        Self { task: Some(task.fallible()) }
    }

    /// Drops the task, at once or after the poll that it is in.
    pub fn abort(mut self) {
        drop(self.task.take());
    }

    /// Whether the task is over.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.task.as_ref().is_none_or(FallibleTask::is_finished)
    }

    /// Ties the task to this handle.
    pub fn abort_on_drop(self) -> AbortOnDrop<T> {
        AbortOnDrop(self)
    }
}

/// The task's result; `None` when it panicked, was aborted, or the executor ended.
impl<T> Future for JoinHandle<T> {
    type Output = Option<T>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<T>> {
        match &mut self.task {
            Some(task) => Pin::new(task).poll(context),
            None => Poll::Ready(None),
        }
    }
}

impl<T> Drop for JoinHandle<T> {
    fn drop(&mut self) {
        if let Some(task) = self.task.take() {
            task.detach();
        }
    }
}

impl<T> Future for AbortOnDrop<T> {
    type Output = Option<T>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<T>> {
        Pin::new(&mut self.0).poll(context)
    }
}

impl<T> Drop for AbortOnDrop<T> {
    fn drop(&mut self) {
        drop(self.0.task.take());
    }
}

impl<T> fmt::Debug for JoinHandle<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JoinHandle").field("is_finished", &self.is_finished()).finish()
    }
}
