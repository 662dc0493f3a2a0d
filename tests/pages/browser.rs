//! Chromium, driven by its debugging protocol through two pipes: it reads commands from descriptor 3 and writes
//! responses and events to descriptor 4, each message with a NUL after it. Neither a port nor another program is
//! needed.

use std::cell::RefCell;
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{LazyLock, Mutex, MutexGuard};
use std::thread;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use tempfile::TempDir;

/// The longest wait for a message. A machine that compiles beside the tests needs a few seconds at most.
const LONGEST_WAIT: Duration = Duration::from_secs(120);

struct Browser {
    child: Child,
    answers: Receiver<Value>,
    next: u64,
    _profile: TempDir,
}

/// One browser for all tests. It ends when its pipes are closed, with the test program.
static BROWSER: LazyLock<Mutex<Browser>> = LazyLock::new(|| Mutex::new(Browser::start()));

impl Browser {
    fn start() -> Self {
        let program = std::env::var("MULLION_CHROMIUM").expect("MULLION_CHROMIUM names Chromium: run `make pages`");
        let profile = tempfile::tempdir().unwrap();
        let log = File::create(super::folder().join("chromium.log")).unwrap();
        let mut child = Command::new("sh")
            .args(["-c", "exec 3<&0 4>&1 >&2 </dev/null \"$@\"", "sh", &program])
            // In a container the tests may be root, for whom Chromium has no sandbox, and /dev/shm may be small.
            .args(["--headless", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu", "--no-first-run"])
            .args(["--disable-background-networking", "--disable-component-update", "--remote-debugging-pipe"])
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .unwrap();
        let output = child.stdout.take().unwrap();
        let (send, answers) = channel();
        thread::spawn(move || {
            for message in BufReader::new(output).split(0).map_while(Result::ok) {
                if send.send(serde_json::from_slice(&message).unwrap()).is_err() {
                    return;
                }
            }
        });
        Self { child, answers, next: 0, _profile: profile }
    }

    fn receive(&mut self) -> Value {
        let log = super::folder().join("chromium.log");
        self.answers.recv_timeout(LONGEST_WAIT).unwrap_or_else(|error| panic!("{error}: see {}", log.display()))
    }

    /// Calls a method; events that arrive before its response are kept.
    fn call(&mut self, session: Option<&str>, method: &str, params: &Value, events: &mut Vec<Value>) -> Value {
        self.next += 1;
        let mut message = json!({"id": self.next, "method": method, "params": params});
        if let Some(session) = session {
            message["sessionId"] = json!(session);
        }
        let input = self.child.stdin.as_mut().unwrap();
        input.write_all(message.to_string().as_bytes()).unwrap();
        input.write_all(&[0]).unwrap();
        input.flush().unwrap();
        loop {
            let mut answer = self.receive();
            if answer["id"] == self.next {
                assert!(answer["error"].is_null(), "{method}: {}", answer["error"]);
                return answer["result"].take();
            }
            if answer["sessionId"].as_str() == session && !answer["method"].is_null() {
                events.push(answer);
            }
        }
    }
}

/// A tab of the browser, which no other test has at the same time.
pub struct Tab {
    browser: RefCell<MutexGuard<'static, Browser>>,
    session: String,
    target: String,
    events: RefCell<Vec<Value>>,
}

/// Opens a tab.
pub fn tab() -> Tab {
    let mut browser = BROWSER.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let events = &mut Vec::new();
    let target = browser.call(None, "Target.createTarget", &json!({"url": "about:blank"}), events);
    let target = target["targetId"].as_str().unwrap().to_owned();
    let attached = browser.call(None, "Target.attachToTarget", &json!({"targetId": target, "flatten": true}), events);
    let session = attached["sessionId"].as_str().unwrap().to_owned();
    let tab = Tab { browser: RefCell::new(browser), session, target, events: RefCell::default() };
    for domain in ["Page", "Runtime", "Log", "Network", "DOM"] {
        tab.call(&format!("{domain}.enable"), &json!({}));
    }
    tab
}

impl Tab {
    pub fn call(&self, method: &str, params: &Value) -> Value {
        self.browser.borrow_mut().call(Some(&self.session), method, params, &mut self.events.borrow_mut())
    }

    /// Sets the size and colors of the window.
    pub fn show(&self, width: u32, scheme: &str) {
        let mobile = width < 500;
        let metrics = json!({"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": mobile});
        self.call("Emulation.setDeviceMetricsOverride", &metrics);
        let features = json!([{"name": "prefers-color-scheme", "value": scheme}]);
        self.call("Emulation.setEmulatedMedia", &json!({"media": "", "features": features}));
    }

    /// Opens an address and waits until it is loaded. Events of the previous page are dropped.
    pub fn open(&self, address: &str) {
        self.events.borrow_mut().clear();
        let answer = self.call("Page.navigate", &json!({"url": address}));
        assert!(answer["errorText"].is_null(), "{address}: {answer}");
        let loaded = |events: &[Value]| events.iter().any(|event| event["method"] == "Page.loadEventFired");
        while !loaded(&self.events.borrow()) {
            let event = self.browser.borrow_mut().receive();
            if event["sessionId"] == *self.session {
                self.events.borrow_mut().push(event);
            }
        }
    }

    /// The value of an expression in the page.
    pub fn evaluate(&self, expression: &str) -> Value {
        let params = json!({"expression": expression, "returnByValue": true, "awaitPromise": true});
        let mut answer = self.call("Runtime.evaluate", &params);
        assert!(answer["exceptionDetails"].is_null(), "{}", answer["exceptionDetails"]);
        answer["result"]["value"].take()
    }

    /// The number of elements, even if scripts are off.
    pub fn count(&self, selector: &str) -> usize {
        let root = self.call("DOM.getDocument", &json!({}))["root"]["nodeId"].clone();
        let found = self.call("DOM.querySelectorAll", &json!({"nodeId": root, "selector": selector}));
        found["nodeIds"].as_array().unwrap().len()
    }

    pub fn press(&self, key: &str) {
        let (code, text) = if key == "Enter" { ("Enter", "\r") } else { ("Space", " ") };
        let number = if key == "Enter" { 13 } else { 32 };
        for kind in ["keyDown", "keyUp"] {
            let mut event = json!({"type": kind, "key": key, "code": code, "windowsVirtualKeyCode": number});
            if kind == "keyDown" {
                event["text"] = json!(text);
            }
            self.call("Input.dispatchKeyEvent", &event);
        }
    }

    /// The whole page as PNG.
    pub fn screenshot(&self) -> Vec<u8> {
        let picture = self.call("Page.captureScreenshot", &json!({"captureBeyondViewport": true}));
        STANDARD.decode(picture["data"].as_str().unwrap()).unwrap()
    }

    /// What the browser has reported since the page was opened. A drawn frame comes after all pending reports.
    pub fn events(&self) -> Vec<Value> {
        let clip = json!({"x": 0, "y": 0, "width": 1, "height": 1, "scale": 1});
        self.call("Page.captureScreenshot", &json!({"clip": clip}));
        self.events.borrow().clone()
    }
}

impl Drop for Tab {
    fn drop(&mut self) {
        if !thread::panicking() {
            let params = json!({"targetId": self.target});
            self.browser.borrow_mut().call(None, "Target.closeTarget", &params, &mut Vec::new());
        }
    }
}
