use proc_macro::TokenStream;

#[proc_macro_attribute]
pub fn idempotent_job(_args: TokenStream, item: TokenStream) -> TokenStream { item }

#[proc_macro_derive(KeyPart, attributes(key))]
pub fn key_part(_item: TokenStream) -> TokenStream { TokenStream::new() }

#[proc_macro_derive(JobMessage, attributes(message))]
pub fn job_message(_item: TokenStream) -> TokenStream { TokenStream::new() }
