package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"
	"unicode/utf8"
)

// FuzzMessages answers as no server should: with any list of tools, or any result of a call. What is shown of it to a
// model is text of a bounded length, beside media, and what is said of tools is JSON.
func FuzzMessages(f *testing.F) {
	const tools = `{"tools":[{"name":"a","description":"d","inputSchema":{"type":"object"}}]}`
	f.Add([]byte(`{"tools":[{"name":"a","inputSchema":{"type":"object","properties":{"x":{"type":"string"}}}},{"name":"a","inputSchema":{}}],"nextCursor":""}`), true)
	f.Add([]byte(`{"tools":[{"name":5}]}`), true)
	f.Add([]byte(`{"tools":null,"nextCursor":"x"}`), true)
	f.Add([]byte(`{"content":[{"type":"text","text":"x"},{"type":"image","data":"AA==","mimeType":"image/png"},{"type":"resource","resource":{"uri":"a:b","text":"y"}},{"type":"resource_link","uri":"a:b","name":"n"}],"isError":true}`), false)
	f.Add([]byte(`{"content":[],"structuredContent":{"a":[1]}}`), false)
	f.Add([]byte(`{"content":[{"type":"nope"}]}`), false)
	f.Add([]byte(`null`), false)
	var answer atomic.Pointer[func(method string) []byte]
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var request struct {
			ID     json.RawMessage
			Method string
		}
		body, _ := io.ReadAll(r.Body)
		if json.Unmarshal(body, &request) != nil || len(request.ID) == 0 {
			w.WriteHeader(http.StatusAccepted) // of what needs no answer
			return
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, request.ID, (*answer.Load())(request.Method))
	}))
	f.Cleanup(web.Close)
	f.Fuzz(func(t *testing.T, data []byte, listing bool) {
		pages := 0
		say := func(method string) []byte {
			switch {
			case method == "initialize":
				return []byte(`{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"f","version":"1"}}`)
			case method == "tools/list" && (!listing || pages > 3):
				return []byte(tools)
			case method == "tools/list":
				pages++
			}
			return data
		}
		answer.Store(&say)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second) // of answers that are none
		defer cancel()
		b, err := Open(ctx, map[string]Server{"f": {URL: web.URL}}, "1")
		if err != nil {
			return
		}
		defer b.Close()
		for _, spec := range b.Specs() {
			if !json.Valid(spec) {
				t.Errorf("a tool is %s", spec)
			}
		}
		if names := b.Names(); len(names) > 0 {
			shown, err := b.Call(ctx, names[0], "{}")
			text := shown.Named()
			if err == nil && (!utf8.ValidString(text) || len(text) > MaxResult+100+len(data)) {
				t.Errorf("%d bytes: %q", len(text), text)
			}
		}
	})
}
