package ollama_test

import "encoding/json"

// What tests read answers into: the names of fields are those of the API's documents, not of the structs that write
// them, so that a wrong name in those fails.
type (
	// line is an answer of Ollama's, or a line of one.
	line struct {
		Model     string   `json:"model"`
		Message   *message `json:"message"`
		Response  *string  `json:"response"`
		Thinking  string   `json:"thinking"`
		Done      bool     `json:"done"`
		Reason    string   `json:"done_reason"`
		Context   []int32  `json:"context"`
		Total     int64    `json:"total_duration"`
		Load      int64    `json:"load_duration"`
		Prompt    int      `json:"prompt_eval_count"`
		PromptFor int64    `json:"prompt_eval_duration"`
		Eval      int      `json:"eval_count"`
		EvalFor   int64    `json:"eval_duration"`
	}
	message struct {
		Role     string `json:"role"`
		Content  string `json:"content"`
		Thinking string `json:"thinking"`
		Calls    []struct {
			Function struct {
				Name      string          `json:"name"`
				Arguments json.RawMessage `json:"arguments"`
			} `json:"function"`
		} `json:"tool_calls"`
	}
	modelList struct {
		Models []struct {
			Name    string `json:"name"`
			Model   string `json:"model"`
			Size    uint64 `json:"size"`
			Digest  string `json:"digest"`
			Expires string `json:"expires_at"`
		} `json:"models"`
	}
	shownModel struct {
		Template     string         `json:"template"`
		Info         map[string]any `json:"model_info"`
		Capabilities []string       `json:"capabilities"`
	}
	vectors struct {
		Model      string      `json:"model"`
		Embeddings [][]float32 `json:"embeddings"`
		Prompt     int         `json:"prompt_eval_count"`
	}
	vector struct {
		Embedding []float32 `json:"embedding"`
	}
	version struct {
		Version string `json:"version"`
		Quern   string `json:"quern"`
	}
)
