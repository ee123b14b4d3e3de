package anthropic_test

import (
	"testing"

	"github.com/quern-llm/quern/go/server/internal/fake"
)

func FuzzAnthropic(f *testing.F) {
	fake.FuzzPost(f, "/v1/messages", `{`+ask1+
		`,"system":[{"type":"text","text":"x-anthropic-billing-header: 1\ny"}],"thinking":{"type":"enabled","budget_tokens":5},"stream":true}`,
		`{"max_tokens":1,"messages":[{"role":"user","content":[{"type":"tool_result","tool_use_id":"1","content":[{"type":"text","text":"x"}]}]},{"role":"assistant","content":[{"type":"tool_use","id":"1","name":"f","input":{}},{"type":"thinking","thinking":"t"}]}]}`,
		`{`+ask1+`,"tools":[{"name":"f","input_schema":{"type":"object"}}],"tool_choice":{"type":"tool","name":"f"},"output_config":{"effort":"low"}}`,
		`{"max_tokens":1,"mcp_servers":[{"type":"url","name":"x","url":"y"}],"tools":[{"type":"web_search_20250305","name":"web_search","allowed_domains":["a.b/c*"]},{"type":"mcp_toolset","mcp_server_name":"x"}],"messages":[{"role":"user","content":"a"},{"role":"assistant","content":[{"type":"server_tool_use","id":"1","name":"web_search","input":{}},{"type":"web_search_tool_result","tool_use_id":"1","content":[{"type":"web_search_result","url":"u","title":"t","encrypted_content":"quern:eA=="}]},{"type":"mcp_tool_use","id":"2","name":"f","server_name":"x"}]}]}`)
}
