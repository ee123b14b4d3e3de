package main

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/quern-llm/quern/go/demo"
)

// asGreeter makes this test binary an MCP server over its standard input and output.
const asGreeter = "TEST_MCP_GREETER"

func runGreeter() error {
	s := sdk.NewServer(&sdk.Implementation{Name: "greeter", Version: "1"}, nil)
	type who struct {
		Name string `json:"name"`
	}
	sdk.AddTool(s, &sdk.Tool{Name: "greet", Description: "Greets somebody"}, func(_ context.Context, _ *sdk.CallToolRequest, in who) (*sdk.CallToolResult, any, error) {
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: "Hello " + in.Name}}}, nil, nil
	})
	return s.Run(context.Background(), &sdk.StdioTransport{})
}

func TestServeMCP(t *testing.T) {
	config := filepath.Join(t.TempDir(), "mcp.json")
	write := func(command string) {
		data, err := json.Marshal(map[string]any{"mcpServers": map[string]any{
			"door": map[string]any{"command": command, "env": map[string]string{asGreeter: "1"}},
		}})
		if err == nil {
			err = os.WriteFile(config, data, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	write("/nowhere/mcp")
	// A server that cannot be used costs its tools only.
	for _, flag := range []string{"--mcp=" + config, `--mcp-servers-json={"mcpServers": {"door": {"command": "/nowhere/mcp"}}}`} {
		s := serve(t, demo.Name, "--host", "127.0.0.1", "--port", "0", flag)
		if status, text := s.get("/tools"); status != 200 || text != "[]" || !s.logged("/nowhere/mcp") {
			t.Errorf("%s: %d %s", flag, status, text)
		}
	}
	quern(t, "serve", "-m", demo.Name, "--host", "0.0.0.0", "--port", "0", "--mcp-servers-json", `{}`).refused(t, 2, "--mcp", "no API key")
	quern(t, "serve", "-m", demo.Name, "--host", "127.0.0.1", "--port", "0", "--mcp", config+"x").refused(t, 1, "no such file")
	quern(t, "serve", "-m", demo.Name, "--host", "127.0.0.1", "--port", "0", "--mcp-result-size", "257Ki").refused(t, 2, "--mcp-result-size", "at most 256Ki")
	quern(t, "serve", "-m", demo.Name, "--host", "0.0.0.0", "--port", "0", "--mcp", config).refused(t, 2, "--mcp", "0.0.0.0", "no API key")
	quern(t, "serve", "-m", demo.Name, "--host", "127.0.0.1", "--port", "0", "--allowed-hosts", "*", "--mcp", config).refused(t, 2, "--mcp", "--allowed-hosts")

	write(os.Args[0])
	s := serve(t, demo.Name, "--host", "127.0.0.1", "--port", "0", "--api-key", "a-secret-key", "--mcp", config)
	address := strings.TrimPrefix(s.address(), "http://")
	const kind, key, body = "Content-Type: application/json", "Authorization: Bearer a-secret-key", `{"name":"greet","arguments":{"name":"Ann"}}`
	if r, text := exchange(t, address, "GET", "/v1/mcp/tools", "", key); r.StatusCode != 200 || !strings.Contains(text, `"server":"door"`) || !strings.Contains(text, `"name":"greet"`) {
		t.Errorf("the list: %d %s", r.StatusCode, text)
	}
	if r, text := exchange(t, address, "POST", "/v1/mcp/call", body, kind, key); r.StatusCode != 200 || !strings.Contains(text, `"content":"Hello Ann"`) {
		t.Errorf("a call: %d %s", r.StatusCode, text)
	}
	if !s.logged(`"called a tool"`) {
		t.Error("the log has no call")
	}
	for _, path := range []string{"/v1/mcp/tools", "/v1/mcp/call"} {
		method := map[bool]string{true: "POST", false: "GET"}[strings.HasSuffix(path, "call")]
		if r, text := exchange(t, address, method, path, body, kind); r.StatusCode != 401 {
			t.Errorf("%s without a key: %d %s", path, r.StatusCode, text)
		}
	}
	if r, text := exchange(t, address, "POST", "/v1/mcp/call", body, kind, key, "Origin: http://localhost:5173"); r.StatusCode != 403 {
		t.Errorf("from another page of this machine: %d %s", r.StatusCode, text)
	}
}
