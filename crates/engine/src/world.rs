//! The world as it is: the one place here that knows a runtime, a clock and chance.

mod tokio_env;

pub use tokio_env::TokioEnv;
