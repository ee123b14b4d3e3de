package mcp

import "testing"

// FuzzConfig reads files of servers that are anything: each that is not disabled can be reached in one way.
func FuzzConfig(f *testing.F) {
	f.Add([]byte(`{"mcpServers": {"files": {"command": "mcp-files", "args": ["/home/me"], "env": {"A": "b"}}}}`))
	f.Add([]byte(`{"mcpServers": {"a": {"url": "https://example.com/mcp", "headers": {"X": "y"}}, "b": {"disabled": true}}}`))
	f.Add([]byte(`{"mcpServers": {"a": {"command": 1}}}`))
	f.Add([]byte(`{"mcpServers": {"a": {"url": "http://%zz"}}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		servers, err := parseConfig(data)
		if (err == nil) != (len(servers) > 0) {
			t.Fatalf("%d servers, %v", len(servers), err)
		}
		for name, s := range servers {
			if (s.Command == "") == (s.URL == "") || s.Disabled {
				t.Errorf("%q: %+v", name, s)
			}
		}
	})
}
