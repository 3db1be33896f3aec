//! client-go's cache layer: Reflector, DeltaFIFO, Indexer, shared informers.
