//! Name resolution that drops the addresses that a registry may not have. The connection uses one of the other
//! addresses, so no second resolution can return a different one.

use std::error::Error;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::vec;

use hyper_util::client::legacy::connect::dns::Name;
use tower::Service;

use crate::registry::addresses::AddressRule;

/// A resolver, and the addresses that may be used.
#[derive(Debug, Clone)]
pub(crate) struct CheckedResolver<R> {
    pub(crate) inner: R,
    pub(crate) addresses: AddressRule,
}

impl<R> Service<Name> for CheckedResolver<R>
where
    R: Service<Name>,
    R::Response: Iterator<Item = SocketAddr>,
    R::Error: Into<Box<dyn Error + Send + Sync>>,
    R::Future: Send + 'static,
{
    type Response = vec::IntoIter<SocketAddr>;
    type Error = Box<dyn Error + Send + Sync>;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(context).map_err(Into::into)
    }

    fn call(&mut self, name: Name) -> Self::Future {
        let addresses = self.addresses;
        let host = name.to_string();
        let found = self.inner.call(name);
        Box::pin(async move {
            let (mut allowed, mut forbidden) = (Vec::new(), None);
            for found in found.await.map_err(Into::into)? {
                match addresses.check(&host, found.ip()) {
                    Ok(()) => allowed.push(found),
                    Err(error) => forbidden = forbidden.or(Some(error)),
                }
            }
            match forbidden {
                Some(forbidden) if allowed.is_empty() => Err(forbidden.into()),
                _ => Ok(allowed.into_iter()),
            }
        })
    }
}

#[cfg(test)]
mod tests {

    #![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

    use std::convert::Infallible;
    use std::future::{Ready, ready};
    use std::net::IpAddr;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use hyper_util::client::legacy::connect::HttpConnector;
    use tokio::net::TcpListener;

    use super::*;
    use crate::registry::addresses::ForbiddenAddress;

    /// Returns the first addresses once, and afterwards the others, as an attacker's name server does.
    #[derive(Clone)]
    struct Rebinding {
        first: Vec<IpAddr>,
        then: Vec<IpAddr>,
        calls: Arc<AtomicUsize>,
    }

    impl Service<Name> for Rebinding {
        type Response = vec::IntoIter<SocketAddr>;
        type Error = Infallible;
        type Future = Ready<Result<Self::Response, Infallible>>;

        fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
            Poll::Ready(Ok(()))
        }

        fn call(&mut self, _: Name) -> Self::Future {
            let found = if self.calls.fetch_add(1, Ordering::SeqCst) == 0 { &self.first } else { &self.then };
            ready(Ok(found.iter().map(|&ip| SocketAddr::new(ip, 0)).collect::<Vec<_>>().into_iter()))
        }
    }

    fn resolver(first: &[&str], then: &[&str], addresses: AddressRule) -> CheckedResolver<Rebinding> {
        let of = |texts: &[&str]| texts.iter().map(|text| text.parse().unwrap()).collect();
        CheckedResolver { inner: Rebinding { first: of(first), then: of(then), calls: Arc::default() }, addresses }
    }

    #[tokio::test]
    async fn only_allowed_addresses_are_returned() {
        for (found, addresses, expected) in [
            (&["8.8.8.8", "10.0.0.1", "2000::1"][..], AddressRule::Public, Ok(vec!["8.8.8.8", "2000::1"])),
            (&["10.0.0.1", "169.254.169.254"], AddressRule::Listed, Ok(vec!["10.0.0.1"])),
            (&["127.0.0.1"], AddressRule::Any, Ok(vec!["127.0.0.1"])),
            (&["10.0.0.1", "127.0.0.1"], AddressRule::Public, Err("private address 10.0.0.1, ")),
            (&["::ffff:127.0.0.1"], AddressRule::Listed, Err("loopback address ::ffff:127.0.0.1, ")),
            (&[], AddressRule::Public, Ok(vec![])),
        ] {
            let result = resolver(found, &[], addresses).call("r.example".parse().unwrap()).await;
            match (result, expected) {
                (Ok(found), Ok(expected)) => {
                    assert_eq!(found.map(|found| found.ip().to_string()).collect::<Vec<_>>(), expected);
                }
                (Err(error), Err(expected)) => {
                    let error = error.downcast::<ForbiddenAddress>().unwrap().to_string();
                    assert!(error.starts_with("r.example has the ") && error.contains(expected), "{error}");
                }
                (result, expected) => panic!("{result:?} instead of {expected:?}"),
            }
        }
    }

    #[tokio::test]
    async fn the_connection_goes_to_the_address_that_was_checked() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let resolver = resolver(&["127.0.0.1"], &["169.254.169.254"], AddressRule::Any);
        let calls = Arc::clone(&resolver.inner.calls);
        let mut connector = HttpConnector::new_with_resolver(resolver);
        let stream = connector.call(format!("http://r.example:{port}/").parse().unwrap()).await.unwrap();
        assert_eq!(stream.inner().peer_addr().unwrap(), listener.local_addr().unwrap());
        assert_eq!(calls.load(Ordering::SeqCst), 1);
    }
}
