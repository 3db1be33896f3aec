//! [`Engine`]: the wasmtime engine and linker of a host with the compile cache and the epoch ticker. A host has one.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use pilothouse_plugin::Limits;
use sha2::{Digest as _, Sha256};
use wasmtime::component::Linker;
use wasmtime::{Config, PoolingAllocationConfig};

use crate::cache::{CompileCache, hex};
use crate::code::{Code, CodeTable};
use crate::compile::lanes::Lanes;
use crate::compile::{Compiler, check_header};
use crate::error::{EngineError, LoadError};
use crate::state::StoreState;
use crate::wasi;

/// Length of one epoch: a running guest yields and is charged once per epoch. At 10 ms the cost is not measurable.
pub(crate) const TICK: Duration = Duration::from_millis(10);

/// Core module instances of one component: componentize-py makes 14 and more.
const MAX_CORE_INSTANCES: u32 = 64;

/// Tables of one component.
const MAX_TABLES: u32 = 4;

/// The options of [`Engine::new`].
#[derive(Debug, Clone)]
pub struct EngineOptions {
    /// Folder of the compile cache, created when absent. The cache is the folder `compiled` in it, which must belong to
    /// this user and give no other user access.
    pub cache_dir: PathBuf,
    /// Where components are compiled.
    pub compiler: Compiler,
    /// Maximum number of live instances.
    pub instances: u32,
}

impl EngineOptions {
    /// Default of [`instances`](Self::instances). Each instance reserves 4 GiB of address space; this number leaves
    /// room for the rest of the process.
    pub const DEFAULT_INSTANCES: u32 = 4000;
}

/// The engine of a host. A clone copies a reference count.
#[derive(Clone)]
pub struct Engine(pub(crate) Arc<EngineInner>);

pub(crate) struct EngineInner {
    pub(crate) wasmtime: wasmtime::Engine,
    pub(crate) linker: Linker<StoreState>,
    pub(crate) cache: CompileCache,
    pub(crate) codes: CodeTable,
    compiler: Compiler,
    lanes: Lanes,
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine").finish_non_exhaustive()
    }
}

/// The allocation strategy for the memory of instances.
pub(crate) enum InstancePool {
    /// A pool with this many slots, reserved in advance.
    Slots(u32),
    /// Memory is mapped for each instance: slower, but reserves no address space in advance.
    None,
}

pub(crate) fn wasmtime_engine(pool: &InstancePool) -> wasmtime::Result<wasmtime::Engine> {
    let mut config = Config::new();
    // Component-model async makes each call four times slower, and the contract does not use it.
    config.concurrency_support(false).epoch_interruption(true);
    config.shared_memory(false).wasm_memory64(false).wasm_multi_memory(false);
    config.wasm_tail_call(false).wasm_relaxed_simd(false).wasm_wide_arithmetic(false);
    config.async_stack_size(1 << 20).max_wasm_stack(512 << 10);
    // The stack of a dropped instance keeps no page, as its memory does (below): one call of the system when it is dropped.
    config.async_stack_zeroing(true);
    if let InstancePool::Slots(n) = *pool {
        let mut slots = PoolingAllocationConfig::new();
        // A component built by rustc consists of a main module, a shim and a fixup: three core instances, two tables. Interpreters
        // of other languages are linked of more modules. Each of the n instances may have all that a component may: the number of
        // instances is the only one that the host counts. Core instances are a count; a table reserves 160 KiB of address space.
        slots.total_component_instances(n).total_memories(n);
        slots.total_core_instances(MAX_CORE_INSTANCES.saturating_mul(n));
        slots.total_tables(MAX_TABLES.saturating_mul(n));
        // Each live store keeps one fiber stack.
        slots.total_stacks(n);
        slots.max_memory_size(Limits::MAX_MEMORY).table_elements(20_000);
        slots
            .max_memories_per_component(1)
            .max_core_instances_per_component(MAX_CORE_INSTANCES)
            .max_tables_per_component(MAX_TABLES);
        // No page of a slot stays resident after its instance is dropped. Resident pages would make an instance 20 µs
        // faster to create, but wasmtime never trims them: after a thousand plugins ran at the same time, the process
        // would keep their pages until it ends (docs/decisions/0004-slots-keep-nothing.md).
        slots.linear_memory_keep_resident(0).table_keep_resident(0);
        slots.max_unused_warm_slots(32);
        config.allocation_strategy(slots);
    }
    wasmtime::Engine::new(&config)
}

impl Engine {
    /// Creates the engine and starts the epoch ticker's thread. Without enough address space for an instance pool it
    /// logs a warning and runs without one.
    ///
    /// # Errors
    /// When the cache folder cannot be used, wasmtime does not support this machine, or the thread cannot be started.
    pub fn new(options: EngineOptions) -> Result<Self, EngineError> {
        let fail = |e: wasmtime::Error| EngineError::Wasmtime(format!("{e:#}"));
        let wasmtime = match wasmtime_engine(&InstancePool::Slots(options.instances)) {
            Ok(engine) => engine,
            Err(error) => {
                tracing::warn!(
                    event = "instance_pool_unavailable",
                    error = format!("{error:#}"),
                    "no address space for an instance pool (ulimit -v, or a small container): instances will start slower"
                );
                wasmtime_engine(&InstancePool::None).map_err(fail)?
            }
        };
        let cache = CompileCache::new(&options.cache_dir, wasmtime.clone())?;
        let linker = linker(&wasmtime).map_err(fail)?;
        start_ticker(&wasmtime)?;
        let compiler = options.compiler;
        let (codes, lanes) = (CodeTable::default(), Lanes::new());
        Ok(Self(Arc::new(EngineInner { wasmtime, linker, cache, codes, compiler, lanes })))
    }

    /// Prepares a component: compiles it or finds it in the compile cache, maps it, checks its world and links it. Hashing
    /// and files are left to the runtime's threads for blocking work.
    ///
    /// # Errors
    /// When the bytes are not a component of the contract, compilation fails or exceeds its limits, or the compile
    /// cache cannot be used. [`LoadError::is_refusal`] tells which.
    pub async fn prepare(&self, bytes: impl Into<Bytes> + Send) -> Result<Code, LoadError> {
        let bytes = bytes.into();
        let component = bytes.clone();
        let key = self
            .blocking(move |engine| {
                check_header(&component)?;
                let digest: [u8; 32] = Sha256::digest(&component).into();
                Ok(ComponentKey {
                    cache: engine.0.cache.key(&digest),
                    digest: format!("sha256:{}", hex(&digest)),
                })
            })
            .await?;
        if let Some(code) = self.find(&key).await? {
            return Ok(code);
        }
        let (key, bytes) = (&key, &bytes);
        self.0
            .lanes
            .run(|| async move {
                // Another plugin with the same component may have been compiled meanwhile.
                match self.find(key).await? {
                    Some(code) => Ok(code),
                    None => self.compile(key, bytes).await,
                }
            })
            .await
    }

    /// The code of a component that is in the compile cache, mapped and linked.
    async fn find(&self, key: &ComponentKey) -> Result<Option<Code>, LoadError> {
        let key = key.clone();
        self.blocking(move |engine| {
            let cache = &engine.0.cache;
            let Some(sum) = cache.find(&key.cache)? else { return Ok(None) };
            let code = Code::new(engine.clone(), sum.clone(), key.digest);
            match code.load() {
                Err(LoadError::CodeLost(error)) => {
                    tracing::warn!(event = "compile_cache_entry_unusable", %error, "unusable entry in the compile cache removed");
                    cache.remove(&key.cache, &sum);
                    Ok(None)
                }
                loaded => loaded.map(|()| Some(code)),
            }
        })
        .await
    }

    async fn compile(&self, key: &ComponentKey, bytes: &Bytes) -> Result<Code, LoadError> {
        let scratch = self.blocking(|engine| engine.0.cache.scratch()).await?;
        let output = scratch.output()?;
        self.0.compiler.compile(&self.0.wasmtime, bytes, output).await?;
        let key = key.clone();
        self.blocking(move |engine| {
            let sum = engine.0.cache.adopt(&key.cache, scratch)?;
            let code = Code::new(engine, sum, key.digest);
            code.load()?;
            Ok(code)
        })
        .await
    }

    /// Runs blocking work apart from the threads of the network.
    async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(Self) -> Result<T, LoadError> + Send + 'static,
    ) -> Result<T, LoadError> {
        let engine = self.clone();
        let done = tokio::task::spawn_blocking(move || work(engine)).await;
        done.map_err(|e| LoadError::Stopped(e.to_string()))?
    }
}

/// A component by its content.
#[derive(Clone)]
struct ComponentKey {
    /// Its key in the compile cache.
    cache: String,
    /// `sha256:…` of its bytes.
    digest: String,
}

fn linker(engine: &wasmtime::Engine) -> wasmtime::Result<Linker<StoreState>> {
    let mut linker = Linker::new(engine);
    wasi::add_to_linker(&mut linker)?;
    crate::http::add_to_linker(&mut linker)?;
    crate::imports::add_to_linker(&mut linker)?;
    Ok(linker)
}

/// Starts the thread that advances the epoch until the engine is dropped. It sleeps for one tick after each step, so a
/// stalled machine causes one late tick and not a burst of ticks that would interrupt healthy guests.
fn start_ticker(engine: &wasmtime::Engine) -> Result<(), EngineError> {
    let weak = engine.weak();
    std::thread::Builder::new()
        .name("epoch-ticker".to_owned())
        .spawn(move || {
            while let Some(engine) = weak.upgrade() {
                engine.increment_epoch();
                drop(engine);
                std::thread::sleep(TICK);
            }
        })
        .map_err(|e| EngineError::Wasmtime(format!("cannot start the epoch ticker: {e}")))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worker_compiles_for_the_pool() {
        use std::hash::{DefaultHasher, Hash as _, Hasher as _};
        let hash = |pool: InstancePool| {
            let mut hasher = DefaultHasher::new();
            wasmtime_engine(&pool).unwrap().precompile_compatibility_hash().hash(&mut hasher);
            hasher.finish()
        };
        assert_eq!(hash(InstancePool::None), hash(InstancePool::Slots(10)));
    }

    /// A component with so many instances of core modules, and no exports. As many as may be have a table.
    fn component(instances: u32) -> Vec<u8> {
        // A length of more than 127 has two bytes of seven bits.
        let instances = u8::try_from(instances).unwrap();
        let mut bytes = b"\0asm\x0d\0\x01\0".to_vec();
        bytes.extend(b"\x01\x08\0asm\x01\0\0\0");
        bytes.extend(b"\x01\x0e\0asm\x01\0\0\0\x04\x04\x01\x70\0\x01");
        let [low, high] = [(1 + 3 * u16::from(instances)) & 0x7f | 0x80, (1 + 3 * u16::from(instances)) >> 7];
        bytes.extend([2, low.to_le_bytes()[0], high.to_le_bytes()[0], instances]);
        bytes.extend((0..instances).flat_map(|n| [0, u8::from(u32::from(n) < MAX_TABLES), 0]));
        bytes
    }

    #[tokio::test]
    async fn each_slot_of_the_pool_takes_a_component_that_is_as_large_as_one_may_be() {
        use wasmtime::component::Component;
        use wasmtime::{PoolConcurrencyLimitError, Store};
        let slots = 3;
        let engine = wasmtime_engine(&InstancePool::Slots(slots)).unwrap();
        let component = Component::new(&engine, component(MAX_CORE_INSTANCES)).unwrap();
        let made = async || {
            let mut store = Store::new(&engine, ());
            Linker::new(&engine).instantiate_async(&mut store, &component).await.map(|_| store)
        };
        let mut live = Vec::new();
        for _ in 0..slots {
            live.push(made().await.unwrap());
        }
        assert!(made().await.unwrap_err().is::<PoolConcurrencyLimitError>());
        live.pop();
        made().await.unwrap();
    }

    #[tokio::test]
    async fn a_component_that_does_not_fit_into_the_pool_is_refused_as_that_and_compiled_once() {
        let dir = tempfile::tempdir().unwrap();
        let options = |name: &str| EngineOptions {
            cache_dir: dir.path().join(name),
            compiler: Compiler::InProcess,
            instances: 4,
        };
        let engine = Engine::new(options("cache")).unwrap();
        let small = engine.prepare(component(MAX_CORE_INSTANCES)).await.unwrap_err();
        assert!(matches!(small, LoadError::OtherWorld { .. }), "{small}");
        let compiled = || std::fs::read_dir(dir.path().join("cache/compiled")).unwrap().count();
        let before = compiled();
        for _ in 0..2 {
            let large = engine.prepare(component(MAX_CORE_INSTANCES + 1)).await.unwrap_err();
            assert!(matches!(large, LoadError::TooLarge(_)) && large.is_refusal(), "{large}");
            assert!(large.to_string().contains("65 core module instances"), "{large}");
            assert_eq!(compiled(), before + 2, "the entry stays");
        }
    }
}
