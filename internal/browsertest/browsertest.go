// Package browsertest drives pages in a real Chromium, for tests.
package browsertest

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// patience is the timeout of every wait for a browser, which may share two processors with other load.
const patience = 2 * time.Minute

// missing reports visibly that a test did not run. In CI that is an error.
func missing(t *testing.T, what string) {
	t.Helper()
	fmt.Fprintf(os.Stderr, "\n*** %s DID NOT RUN: %s; internal/browsertest/browser downloads it ***\n\n", t.Name(), what)
	if os.Getenv("CI") != "" {
		t.Fatal(what)
	}
	t.Skip(what)
}

// Chromium starts a browser, which stops at the end of the test.
func Chromium(t *testing.T) context.Context {
	t.Helper()
	found := ""
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "chromium-headless-shell"} {
		if file, err := exec.LookPath(name); err == nil {
			found = file
			break
		}
	}
	if found == "" {
		missing(t, "no Chromium on the PATH")
	}
	options := append(slices.Clone(chromedp.DefaultExecAllocatorOptions[:]), chromedp.ExecPath(found),
		chromedp.Flag("disable-dev-shm-usage", true),
		chromedp.Flag("force-device-scale-factor", "1"), chromedp.Flag("hide-scrollbars", false),
		chromedp.WSURLReadTimeout(patience))
	if os.Geteuid() == 0 {
		options = append(options, chromedp.NoSandbox)
	}
	allocated, stop := chromedp.NewExecAllocator(context.Background(), options...)
	ctx, end := chromedp.NewContext(allocated)
	t.Cleanup(func() {
		if err := chromedp.Cancel(ctx); err != nil {
			t.Log(err)
		}
		end()
		stop()
	})
	if err := chromedp.Do(ctx); err != nil {
		t.Fatal(err)
	}
	return ctx
}

// Tab is a page in a browser.
type Tab struct {
	t      *testing.T
	ctx    context.Context
	server string

	mu       sync.Mutex
	problems []string // errors in the console, and requests to other hosts
	expected []string // parts of expected problems
}

// View is the size of a window in pixels, and its color scheme.
type View struct {
	Width, Height int64
	Dark          bool
}

// Light returns a view with light colors.
func Light(width, height int64) View { return View{width, height, false} }

// Dark returns a view with dark colors.
func Dark(width, height int64) View { return View{width, height, true} }

// Usual is the view of most tests.
var Usual = Light(1280, 900)

// Sizes are the views that a page has to fit.
var Sizes = []View{Light(420, 900), Dark(420, 900), Light(768, 1000), Dark(768, 1000), Usual, Dark(1280, 900),
	Light(1440, 900), Dark(1440, 900), Light(2560, 1440), Dark(2560, 1440)}

// Open opens the page of a server in a new tab. The test fails on errors in the console and on requests to other
// hosts.
func Open(t *testing.T, browser context.Context, server string, v View, expected ...string) *Tab {
	t.Helper()
	site, _, _ := strings.Cut(server, "/#") // a link of the page
	p := &Tab{t: t, server: site, expected: expected}
	ctx, end := chromedp.NewContext(browser, chromedp.WithListener(p.listen))
	ctx, stop := context.WithTimeout(ctx, patience)
	p.ctx = ctx
	t.Cleanup(func() {
		p.close()
		stop()
		end()
	})
	scheme := "light"
	if v.Dark {
		scheme = "dark"
	}
	p.Do(chromedp.EmulateViewport(v.Width, v.Height))
	Command(p, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme},
			{Name: "prefers-reduced-motion", Value: "reduce"}}})
	p.Do(chromedp.Navigate(server))
	return p
}

func (p *Tab) listen(event any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch e := event.(type) {
	case *runtime.EventConsoleAPICalled:
		p.problems = append(p.problems, fmt.Sprintf("console.%s %s", e.Type, e.Args[0].Value))
	case *runtime.EventExceptionThrown:
		what := e.ExceptionDetails.Text
		if e.ExceptionDetails.Exception != nil {
			what += " " + e.ExceptionDetails.Exception.Description
		}
		p.problems = append(p.problems, what)
	case *log.EventEntryAdded:
		p.problems = append(p.problems, fmt.Sprintf("%s: %s (%s)", e.Entry.Level, e.Entry.Text, e.Entry.URL))
	case *network.EventRequestWillBeSent:
		if !strings.HasPrefix(e.Request.URL, p.server) {
			p.problems = append(p.problems, "a request to "+e.Request.URL)
		}
	}
}

// close reports the problems of the tab.
func (p *Tab) close() {
	p.t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, what := range p.problems {
		if !slices.ContainsFunc(p.expected, func(e string) bool { return strings.Contains(what, e) }) {
			p.t.Errorf("the page: %s", what)
		}
	}
}

// Do runs actions in the tab. The test fails if one fails.
func (p *Tab) Do(actions ...chromedp.Action[chromedp.Void]) {
	p.t.Helper()
	if err := chromedp.Do(p.ctx, actions...); err != nil {
		p.t.Fatal(err)
	}
}

// Command sends a command of the browser's protocol.
func Command[P, R any](p *Tab, c cdp.Command[P, R], params P) R {
	p.t.Helper()
	r, err := chromedp.Call(p.ctx, c, params)
	if err != nil {
		p.t.Fatal(err)
	}
	return r
}

// Click clicks an element as a user does, at its position.
func (p *Tab) Click(selector string) {
	p.t.Helper()
	p.Do(chromedp.Click(chromedp.CSS(selector)))
}

// Enter sets the value of a field and submits its form.
func (p *Tab) Enter(selector, value string) {
	p.t.Helper()
	p.Do(chromedp.SetValue(chromedp.CSS(selector), value), chromedp.Focus(chromedp.CSS(selector)),
		chromedp.KeyEvent(kb.Enter))
}

// Press presses keys one after the other.
func (p *Tab) Press(keys ...string) {
	p.t.Helper()
	for _, k := range keys {
		p.Do(chromedp.KeyEvent(k))
	}
}

// Run runs a script and discards its result.
func (p *Tab) Run(script string) {
	p.t.Helper()
	p.Do(chromedp.Evaluate[chromedp.Void](script))
}

// Eval returns the value of an expression.
func Eval[T any](p *Tab, expression string) T {
	p.t.Helper()
	value, err := chromedp.Run(p.ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	if err != nil {
		p.t.Fatalf("%s: %v", expression, err)
	}
	return value
}

// reloads are the browser's errors for an expression if the page is reloaded meanwhile.
var reloads = []string{"context with specified id", "context was destroyed", "Inspected target navigated"}

// Until waits until an expression is true, also across a reload of the page.
func (p *Tab) Until(expression string) {
	p.t.Helper()
	for {
		_, err := chromedp.Run(p.ctx, chromedp.Poll[chromedp.Void](expression, chromedp.WithPollingTimeout(patience),
			chromedp.WithPollingInterval(50*time.Millisecond)))
		if err == nil {
			return
		}
		if slices.ContainsFunc(reloads, func(said string) bool { return strings.Contains(err.Error(), said) }) {
			continue
		}
		says, _ := chromedp.Run(p.ctx, chromedp.Evaluate[string](`document.body.innerText`))
		p.mu.Lock()
		defer p.mu.Unlock()
		p.t.Fatalf("%s: %v; console: %q; page:\n%s", expression, err, p.problems, says)
	}
}

// Text returns the visible text of an element.
func (p *Tab) Text(selector string) string {
	p.t.Helper()
	return Eval[string](p, fmt.Sprintf(`document.querySelector(%q)?.innerText ?? "(not there)"`, selector))
}

// Says fails the test if an element's text lacks one of wants.
func (p *Tab) Says(selector string, wants ...string) {
	p.t.Helper()
	text := strings.Join(strings.Fields(p.Text(selector)), " ")
	for _, want := range wants {
		if !strings.Contains(text, want) {
			p.t.Errorf("%s has the text %.1500q, want %q", selector, text, want)
		}
	}
}

// Screenshot returns the contents of the window as a PNG.
func (p *Tab) Screenshot() []byte {
	p.t.Helper()
	return Command(p, page.CaptureScreenshot, page.CaptureScreenshotParams{}).Data
}

// Expect adds parts of expected problems.
func (p *Tab) Expect(parts ...string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.expected = append(p.expected, parts...)
}

// In reports failures to a subtest until the returned function is called.
func (p *Tab) In(t *testing.T) (end func()) {
	outer := p.t
	p.t = t
	return func() { p.t = outer }
}

// Barriers returns axe-core's accessibility violations, by the rules of WCAG 2 A and AA.
func (p *Tab) Barriers(axe string) (found []string) {
	p.t.Helper()
	p.Run(axe + "; null")
	result := Eval[string](p, `axe.run(document, {runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "best-practice"]}).then((r) => JSON.stringify(r.violations.map((v) =>
		v.id + " (" + v.help + "): " + v.nodes.slice(0, 3).map((n) => n.target + " " + n.failureSummary).join("; "))))`)
	if err := json.Unmarshal([]byte(result), &found); err != nil {
		p.t.Fatal(err)
	}
	return found
}

// Axe returns the source of axe-core.
func Axe(t *testing.T) string {
	t.Helper()
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(filepath.Join(cache, "loaderd", "axe-0.1.8", "axe.min.js"))
	if err != nil {
		missing(t, "no axe-core in the cache folder")
	}
	return string(b)
}
