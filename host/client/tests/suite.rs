//! Tests of the client against a scripted server.
