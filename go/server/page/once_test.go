package page

import (
	"sync"
	"testing"

	"github.com/quern-llm/quern/go/internal/browser"
)

// slow holds back what is written to the store while the page asks for a call, until free is called.
const slow = `(() => {
	const held = [];
	const waits = () => document.querySelector(".asks:not([hidden])");
	Object.defineProperty(IDBTransaction.prototype, "oncomplete", {set(f) {
		const hold = waits();
		this.addEventListener("complete", () => hold && !globalThis.freed ? held.push(f) : f());
	}});
	globalThis.free = () => {
		freed = true;
		for (const f of held.splice(0)) f();
	};
	globalThis.freed = false;
	globalThis.held = held;
})()`

// A call is made once, however soon it is allowed and however slow the store is.
func testOnce(t *testing.T, c chat, places chan string) {
	c.useTool()
	c.Exec(slow)
	c.ask("Oslo?")
	c.Wait(`document.querySelector(".asks:not([hidden])") && held.length`)
	c.Exec(`document.querySelector(".asks .main").click(); free()`)
	if place := c.asked(t, places); place != "Oslo" {
		t.Errorf("the weather of %q was asked for", place)
	}
	c.answered("It is warm.")
	c.ask("hi")
	c.answered("Some plain words")
	none(t, places)
	if n := browser.Eval[int](c.Page, `document.querySelectorAll(".variants:not([hidden])").length`); n != 0 {
		t.Errorf("%d messages have variants", n)
	}
}

// Of two windows that show a call one makes it, and both show what came of it.
func testWindows(t *testing.T, c chat, places chan string) {
	c.useTool()
	c.ask("Oslo?")
	c.Wait(`document.querySelector(".asks:not([hidden])")`)
	c.idle()
	other := chat{c.Tab(browser.Eval[string](c.Page, "location.href"))}
	other.Wait(`document.querySelector(".asks:not([hidden])")`)
	for range cap(places) {
		places <- "" // the tool waits until there is room
	}
	free := sync.OnceFunc(func() {
		for range cap(places) {
			<-places
		}
	})
	defer free()
	c.Exec(`document.querySelector(".asks .main").click()`)
	c.WaitText(".call .state", "calling")
	other.Exec(`document.querySelector(".asks .main").click()`)
	other.WaitText("#notice", "Another window makes these calls")
	free()
	if place := c.asked(t, places); place != "Oslo" {
		t.Errorf("the weather of %q was asked for", place)
	}
	c.answered("It is warm.")
	other.answered("It is warm.")
	none(t, places)
}
