//! Plugins: discover, load, subscribe, dispatch, reload, permissions, admin endpoints.
