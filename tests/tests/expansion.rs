//! What the macros accept. Each module is compiled as it stands: generated code depends on nothing
//! around it, and trips no lint its user may have denied.

#[path = "../ui/pass/extractors.rs"]
mod extractors;
#[path = "../ui/pass/function_callable.rs"]
mod function_callable;
#[path = "../ui/pass/function_cfg_out.rs"]
mod function_cfg_out;
#[path = "../ui/pass/groups.rs"]
mod groups;
#[path = "../ui/pass/keywords_and_tuples.rs"]
mod keywords_and_tuples;
#[path = "../ui/pass/lints_denied.rs"]
pub mod lints_denied;
#[path = "../ui/pass/message_only.rs"]
mod message_only;
#[path = "../ui/pass/no_implicit_prelude.rs"]
mod no_implicit_prelude;
#[path = "../ui/pass/prelude_renamed.rs"]
mod prelude_renamed;
