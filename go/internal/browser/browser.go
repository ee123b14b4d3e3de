// Package browser drives pages in a headless Chromium with mouse and keyboard input,
// for tests. Any failure fails the test, and so do console errors and violations of the
// content security policy.
package browser

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// The timeout of each step on a page, for a busy machine.
const patience = 2 * time.Minute

// The executables to try, in order.
var programs = []string{"chromium", "chromium-browser", "google-chrome-stable", "google-chrome"}

// A Browser is one Chromium.
type Browser struct {
	ctx context.Context
}

// Start starts a Chromium for the duration of the test. Without one the test is skipped
// with a reason; under CI=true it fails, so that the check is not silently dropped.
func Start(t *testing.T) *Browser {
	t.Helper()
	program := find()
	if program == "" {
		reason := "no Chromium: none of " + strings.Join(programs, ", ")
		if os.Getenv("CI") == "true" {
			t.Fatal(reason)
		}
		t.Skip(reason, "(scripts/setup.sh test installs one)")
	}
	allocator, stop := chromedp.NewExecAllocator(context.Background(), append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(program),
		chromedp.NoSandbox, // neither root nor containers have one, and the pages are our own
		chromedp.DisableGPU,
		chromedp.Flag("use-fake-device-for-media-stream", true), // a microphone that beeps
		chromedp.Flag("use-fake-ui-for-media-stream", true),     // and that pages may hear
		chromedp.WindowSize(1280, 800),
	)...)
	ctx, quit := chromedp.NewContext(allocator)
	t.Cleanup(func() {
		quit()
		stop()
	})
	if err := chromedp.Do(ctx); err != nil {
		t.Fatalf("start %s: %v", program, err)
	}
	return &Browser{ctx}
}

func find() string {
	for _, name := range programs {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	return ""
}

// A Page is one tab.
type Page struct {
	t   *testing.T
	ctx context.Context

	mu       sync.Mutex
	problems []string
	expected []string
}

// Open opens url in a tab with its own profile, for the duration of the test. prepare
// runs in the tab first.
func (b *Browser) Open(t *testing.T, url string, prepare ...chromedp.Action[chromedp.Void]) *Page {
	t.Helper()
	ctx, quit := chromedp.NewContext(b.ctx, chromedp.WithNewBrowserContext())
	return newPage(t, ctx, quit, url, prepare...)
}

// Tab opens url in another tab with p's profile.
func (p *Page) Tab(url string) *Page {
	p.t.Helper()
	ctx, quit := chromedp.NewContext(p.ctx)
	return newPage(p.t, ctx, quit, url)
}

func newPage(t *testing.T, ctx context.Context, quit func(), url string, prepare ...chromedp.Action[chromedp.Void]) *Page {
	t.Helper()
	p := &Page{t: t, ctx: ctx}
	messages := chromedp.Console(ctx)
	var listening sync.WaitGroup
	listening.Go(func() {
		for m, err := range messages {
			if err != nil {
				return
			}
			if m.Type == chromedp.ConsoleError || m.Type == chromedp.ConsoleWarning || m.IsException() {
				p.mu.Lock()
				p.problems = append(p.problems, fmt.Sprintf("%s %s %s", m.Source, m, m.URL))
				p.mu.Unlock()
			}
		}
	})
	t.Cleanup(func() {
		quit()
		listening.Wait()
		p.complain()
	})
	p.Do(prepare...)
	p.Goto(url)
	return p
}

// Expect allows errors that contain text.
func (p *Page) Expect(text string) { p.expected = append(p.expected, text) }

func (p *Page) complain() {
next:
	for _, problem := range p.problems {
		for _, text := range p.expected {
			if strings.Contains(problem, text) {
				continue next
			}
		}
		p.t.Errorf("the page complained: %s", problem)
	}
}

// Do runs actions on the page.
func (p *Page) Do(actions ...chromedp.Action[chromedp.Void]) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	if err := chromedp.Do(ctx, actions...); err != nil {
		p.t.Fatalf("%v, on a page that shows\n%s", err, p.visible())
	}
}

// Goto opens url and waits until it is loaded.
func (p *Page) Goto(url string) {
	p.t.Helper()
	p.Do(chromedp.Navigate(url))
}

// Reload loads the page anew.
func (p *Page) Reload() {
	p.t.Helper()
	p.Do(chromedp.Reload())
}

// Click waits until the first element of a CSS selector is visible, moves the mouse to
// its center, and clicks as soon as nothing covers it.
func (p *Page) Click(selector string) {
	p.t.Helper()
	p.Wait(fmt.Sprintf("document.querySelector(%q)?.checkVisibility()", selector))
	p.Exec(fmt.Sprintf("document.querySelector(%q).scrollIntoView({block: 'nearest'})", selector))
	x, y := p.middle(selector) // hovering may change it: some buttons appear only then
	p.Do(chromedp.MouseEvent(input.DispatchMouseEventTypeMouseMoved, x, y))
	// What comes late, such as a list of tools, may have pushed it out of sight.
	p.Wait(fmt.Sprintf("(e => (e.scrollIntoView({block: 'nearest'}), e.contains(document.elementFromPoint(...%s))))(document.querySelector(%q))",
		middle(selector), selector))
	p.Do(chromedp.MouseClickXY(p.middle(selector)))
}

// middle is a JavaScript expression for the center of an element.
func middle(selector string) string {
	return fmt.Sprintf("(({x, y, width, height}) => [x + width / 2, y + height / 2])(document.querySelector(%q).getBoundingClientRect())",
		selector)
}

func (p *Page) middle(selector string) (x, y float64) {
	p.t.Helper()
	at := Eval[[2]float64](p, middle(selector))
	return at[0], at[1]
}

// Type types text into the focused element.
func (p *Page) Type(text string) {
	p.t.Helper()
	p.Press(text)
}

// Press presses keys in sequence, such as kb.Enter, with modifiers held.
func (p *Page) Press(keys string, modifiers ...kb.Modifier) {
	p.t.Helper()
	var held kb.Modifier
	for _, m := range modifiers {
		held |= m
	}
	p.Do(chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		for _, r := range keys {
			if err := press(ctx, t, r, held); err != nil {
				return err
			}
		}
		return nil
	}))
}

// press differs from chromedp.KeyEvent in that the text is part of the key event: as
// with a keyboard, a page that handles the key gets no text.
func press(ctx context.Context, t *chromedp.Target, r rune, held kb.Modifier) error {
	if r == '\n' {
		r = '\r' // Enter is the key for a new line
	}
	key, ok := kb.Keys[r]
	if !ok {
		return fmt.Errorf("no key for %q", r)
	}
	event := input.DispatchKeyEventParams{
		Type:                  kb.KeyDown,
		Key:                   key.Key,
		Code:                  key.Code,
		NativeVirtualKeyCode:  key.Native,
		WindowsVirtualKeyCode: key.Windows,
		Modifiers:             int64(held),
	}
	if key.Shift {
		event.Modifiers |= int64(kb.ModifierShift)
	}
	if key.Print && held&^kb.ModifierShift == 0 {
		event.Text, event.UnmodifiedText = key.Text, key.Unmodified
	}
	if _, err := cdp.Call(ctx, t, input.DispatchKeyEvent, event); err != nil {
		return err
	}
	event.Type, event.Text, event.UnmodifiedText = kb.KeyUp, "", ""
	_, err := cdp.Call(ctx, t, input.DispatchKeyEvent, event)
	return err
}

// Files selects files in a file input.
func (p *Page) Files(selector string, paths ...string) {
	p.t.Helper()
	p.Do(chromedp.SetUploadFiles(chromedp.CSS(selector), paths))
}

// Eval returns the value of a JavaScript expression, awaiting promises.
func Eval[T any](p *Page, expression string) T {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	v, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	if err != nil {
		p.t.Fatalf("%s: %v", expression, err)
	}
	return v
}

// Exec runs a JavaScript statement.
func (p *Page) Exec(statement string) {
	p.t.Helper()
	Eval[chromedp.Void](p, statement)
}

// Text returns the text of the first element of a CSS selector.
func (p *Page) Text(selector string) string {
	p.t.Helper()
	return Eval[string](p, fmt.Sprintf("document.querySelector(%q)?.textContent ?? ''", selector))
}

// Wait waits until a JavaScript expression is true.
func (p *Page) Wait(expression string) {
	p.t.Helper()
	for start := time.Now(); !Eval[bool](p, "Boolean("+expression+")"); time.Sleep(10 * time.Millisecond) {
		if time.Since(start) > patience {
			p.t.Fatalf("waited in vain for %s, on a page that shows\n%s", expression, p.visible())
		}
	}
}

// WaitText waits until the first element of a CSS selector holds text.
func (p *Page) WaitText(selector, text string) {
	p.t.Helper()
	p.Wait(fmt.Sprintf("document.querySelector(%q)?.textContent.includes(%q)", selector, text))
}

// Media emulates a media feature, such as prefers-color-scheme: dark.
func (p *Page) Media(name, value string) {
	p.t.Helper()
	p.Do(chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
			Features: []*emulation.MediaFeature{{Name: name, Value: value}},
		})
		return err
	}))
}

// Screenshot writes a screenshot of the tab to a PNG file.
func (p *Page) Screenshot(path string) {
	p.t.Helper()
	png, err := chromedp.Run(p.ctx, chromedp.CaptureScreenshot())
	if err == nil {
		err = os.WriteFile(path, png, 0o644)
	}
	if err != nil {
		p.t.Fatal(err)
	}
}

func (p *Page) visible() string {
	ctx, cancel := context.WithTimeout(p.ctx, time.Second)
	defer cancel()
	text, err := chromedp.Run(ctx, chromedp.Evaluate[string]("document.body.innerText"))
	if err != nil {
		return err.Error()
	}
	return text
}

// Phone emulates the touch screen of a phone.
func Phone(width, height int64, scale float64) chromedp.Action[chromedp.Void] {
	return chromedp.EmulateViewport(width, height, chromedp.EmulateScale(scale), chromedp.EmulateMobile, chromedp.EmulateTouch)
}
