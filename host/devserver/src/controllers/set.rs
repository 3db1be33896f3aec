//! [`ControllerSet`]: which controllers of the server run, also as a list in the grammar of kube-controller-manager.

use std::str::FromStr;

/// Which controllers of the server run. Those of a real kube-controller-manager can run against it in their place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ControllerSet {
    /// Deletes objects whose owners have gone, and dependents before owners or without them, as a deletion asks for.
    pub garbage_collector: bool,
    /// Deletes what is in a namespace that is deleted.
    pub namespaces: bool,
    /// Deletes the objects of a definition that is deleted. It is no part of kube-controller-manager.
    pub definitions: bool,
    /// Lets claims and volumes go that are being deleted, once nobody uses them.
    pub volume_protection: bool,
    /// Ends pods that are being deleted, as a kubelet does.
    pub pods: bool,
    /// Deletes Events an hour after they were written last.
    pub events: bool,
}

impl Default for ControllerSet {
    fn default() -> Self {
        Self {
            garbage_collector: true,
            namespaces: true,
            definitions: true,
            volume_protection: true,
            pods: true,
            events: true,
        }
    }
}

impl ControllerSet {
    /// None of them.
    #[must_use]
    pub fn none() -> Self {
        Self {
            garbage_collector: false,
            namespaces: false,
            definitions: false,
            volume_protection: false,
            pods: false,
            events: false,
        }
    }

    /// The controllers by their names in a list.
    fn named(&mut self) -> [(&'static str, &mut bool); 6] {
        [
            ("definitions", &mut self.definitions),
            ("events", &mut self.events),
            ("garbage-collector", &mut self.garbage_collector),
            ("namespaces", &mut self.namespaces),
            ("pods", &mut self.pods),
            ("volume-protection", &mut self.volume_protection),
        ]
    }
}

/// A list names a controller that does not exist.
#[derive(Debug, thiserror::Error)]
#[error("no controller is called {name:?}; there are {known}, and `*` for all of them", known = known_names())]
pub struct UnknownController {
    /// The name in the list.
    pub name: String,
}

fn known_names() -> String {
    ControllerSet::none().named().map(|(name, _)| name).join(", ")
}

/// Reads a list in the grammar of kube-controller-manager's flag `--controllers`: `*` switches all on, `name` one on and
/// `-name` one off, whatever their order; of `name` and `-name` the first counts. A list without `*` switches on only
/// what it names.
impl FromStr for ControllerSet {
    type Err = UnknownController;

    fn from_str(list: &str) -> Result<Self, UnknownController> {
        let items: Vec<&str> = list.split(',').filter(|item| !item.is_empty()).collect();
        let mut set = Self::none();
        for (name, runs) in set.named() {
            let own = items.iter().find(|item| item.strip_prefix('-').unwrap_or(item) == name);
            *runs = own.map_or_else(|| items.contains(&"*"), |item| !item.starts_with('-'));
        }
        let known = Self::none().named().map(|(name, _)| name);
        let plain = |item: &&str| item.strip_prefix('-').unwrap_or(item).to_owned();
        match items.iter().find(|item| **item != "*" && !known.contains(&&*plain(item))) {
            Some(unknown) => Err(UnknownController { name: plain(unknown) }),
            None => Ok(set),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(list: &str) -> ControllerSet {
        list.parse().unwrap()
    }

    #[test]
    fn a_list_is_read_as_kube_controller_manager_reads_it() {
        let all = ControllerSet::default();
        assert_eq!(read("*"), all);
        assert_eq!(read(""), ControllerSet::none());
        assert_eq!(read("-pods"), ControllerSet::none());
        assert_eq!(read("*,-pods,-events"), ControllerSet { pods: false, events: false, ..all });
        assert_eq!(read("-namespaces,*"), ControllerSet { namespaces: false, ..all });
        assert_eq!(read("definitions"), ControllerSet { definitions: true, ..ControllerSet::none() });
        assert!(!read("*,-garbage-collector,garbage-collector").garbage_collector);
        assert!(read("garbage-collector,-garbage-collector").garbage_collector);
    }

    #[test]
    fn an_unknown_name_is_refused_with_those_that_there_are() {
        for list in ["*,-pod", "pod", "--pods", "* ", "garbage_collector"] {
            let refused = list.parse::<ControllerSet>().unwrap_err();
            let text = refused.to_string();
            assert!(text.contains(&format!("{:?}", refused.name)), "{text}");
            assert!(
                text.contains("definitions, events, garbage-collector, namespaces, pods, volume-protection"),
                "{text}"
            );
        }
    }
}
