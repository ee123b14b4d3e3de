// Package mcp gives a chat the tools of MCP servers: programs that are started and talked
// to over their standard input and output, or servers at a URL (streamable HTTP). The
// protocol is the official SDK's.
package mcp

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/url"
	"os"
	"reflect"
	"slices"
	"strings"
	"time"
)

// A Server is how a server is reached: by a command that runs it, or by a URL.
type Server struct {
	Command string            `json:"command"`
	Args    []string          `json:"args"`
	Env     map[string]string `json:"env"` // beside the environment of this process
	Dir     string            `json:"cwd"`

	URL     string            `json:"url"`
	Headers map[string]string `json:"headers"`

	Disabled bool `json:"disabled"`
	Timeout  int  `json:"timeout_ms"` // of a call; 0: what the caller gives it
}

// maxConfig bounds the file, far above any real one.
const maxConfig = 1 << 20

// ReadConfig reads servers by their names from the JSON file that other MCP clients have
// as well: {"mcpServers": {"files": {"command": "mcp-files", "args": ["/home/me"]}}}.
// Disabled ones are left out. Members that are not known, of which clients have many, are
// ignored. What begins with { is no path but such JSON itself.
func ReadConfig(path string) (map[string]Server, error) {
	if strings.HasPrefix(strings.TrimSpace(path), "{") {
		return parseConfig([]byte(path))
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxConfig+1))
	if err == nil && len(data) > maxConfig {
		err = fmt.Errorf("more than %d KiB, want the JSON file of an MCP client", maxConfig>>10)
	}
	var servers map[string]Server
	if err == nil {
		servers, err = parseConfig(data)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return servers, nil
}

func parseConfig(data []byte) (map[string]Server, error) {
	var in struct {
		Servers map[string]Server `json:"mcpServers"`
	}
	var syntax *json.SyntaxError
	var mismatch *json.UnmarshalTypeError
	switch err := json.Unmarshal(data, &in); {
	case errors.As(err, &syntax):
		return nil, fmt.Errorf("byte %d is not JSON: %w", syntax.Offset, err)
	case errors.As(err, &mismatch):
		want := map[reflect.Kind]string{reflect.Map: "object", reflect.Struct: "object", reflect.Slice: "array"}[mismatch.Type.Kind()]
		return nil, fmt.Errorf("%s: got %s, want %s", mismatch.Field, mismatch.Value, cmp.Or(want, mismatch.Type.String()))
	case err != nil:
		return nil, err
	}
	maps.DeleteFunc(in.Servers, func(_ string, s Server) bool { return s.Disabled })
	if len(in.Servers) == 0 {
		return nil, errors.New(`no servers, want {"mcpServers": {"NAME": {"command": "PROGRAM", "args": []}}}`)
	}
	for _, name := range slices.Sorted(maps.Keys(in.Servers)) {
		if err := in.Servers[name].check(); err != nil {
			return nil, fmt.Errorf("server %q: %w", name, err)
		}
	}
	return in.Servers, nil
}

func (s Server) check() error {
	switch {
	case s.Timeout < 0 || s.Timeout > int(maxCall/time.Millisecond):
		return fmt.Errorf("timeout_ms is %d, want 1 to %d", s.Timeout, maxCall/time.Millisecond)
	case (s.Command == "") == (s.URL == ""):
		return errors.New("want either a command or a url")
	case s.URL == "":
		return nil
	}
	u, err := url.Parse(s.URL)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return fmt.Errorf("url is %q, want one that begins with http:// or https://", s.URL)
	}
	return nil
}
