package openai_test

import "encoding/json"

// What tests read answers into: the names of fields are those of the APIs' documents, not of the structs that write them,
// so that a wrong name in those fails.

type (
	// chatAnswer is a chat completion of OpenAI's.
	chatAnswer struct {
		ID          string       `json:"id"`
		Object      string       `json:"object"`
		Created     int64        `json:"created"`
		Model       string       `json:"model"`
		Fingerprint string       `json:"system_fingerprint"`
		Choices     []chatChoice `json:"choices"`
		Usage       *tokenUsage  `json:"usage"`
		Timings     *timings     `json:"timings"`
		Verbose     any          `json:"__verbose"`
	}
	chatChoice struct {
		Index   int `json:"index"`
		Message struct {
			Role      string      `json:"role"`
			Content   *string     `json:"content"`
			Reasoning string      `json:"reasoning_content"`
			Calls     []chatCall  `json:"tool_calls"`
			Call      *chatCalled `json:"function_call"`
		} `json:"message"`
		Finish string `json:"finish_reason"`
	}
	chatCall struct {
		ID       string      `json:"id"`
		Type     string      `json:"type"`
		Function *chatCalled `json:"function"`
		Custom   *struct {
			Name  string `json:"name"`
			Input string `json:"input"`
		} `json:"custom"`
	}
	chatCalled struct {
		Name      string `json:"name"`
		Arguments string `json:"arguments"`
	}
	// textAnswer is a completion of OpenAI's.
	textAnswer struct {
		ID      string `json:"id"`
		Object  string `json:"object"`
		Model   string `json:"model"`
		Choices []struct {
			Text     string          `json:"text"`
			Index    int             `json:"index"`
			Logprobs json.RawMessage `json:"logprobs"`
			Finish   *string         `json:"finish_reason"`
		} `json:"choices"`
		Usage   *tokenUsage `json:"usage"`
		Timings *timings    `json:"timings"`
	}
	tokenUsage struct {
		PromptTokens     int `json:"prompt_tokens"`
		CompletionTokens int `json:"completion_tokens"`
		TotalTokens      int `json:"total_tokens"`
		Details          struct {
			CachedTokens int `json:"cached_tokens"`
		} `json:"prompt_tokens_details"`
		Completion struct {
			ReasoningTokens int `json:"reasoning_tokens"`
		} `json:"completion_tokens_details"`
	}
	timings struct {
		CacheN     int     `json:"cache_n"`
		PromptN    int     `json:"prompt_n"`
		PromptMS   float64 `json:"prompt_ms"`
		PredictedN int     `json:"predicted_n"`
		DraftN     uint64  `json:"draft_n"`
	}
	tokenCount struct {
		Object string `json:"object"`
		Tokens int    `json:"input_tokens"`
	}
	deletion struct {
		ID      string `json:"id"`
		Object  string `json:"object"`
		Deleted bool   `json:"deleted"`
	}

	// ollamaLine is an answer of Ollama's, or a line of one.
	ollamaLine struct {
		Model     string         `json:"model"`
		Message   *ollamaMessage `json:"message"`
		Response  *string        `json:"response"`
		Thinking  string         `json:"thinking"`
		Done      bool           `json:"done"`
		Reason    string         `json:"done_reason"`
		Context   []int32        `json:"context"`
		Total     int64          `json:"total_duration"`
		Load      int64          `json:"load_duration"`
		Prompt    int            `json:"prompt_eval_count"`
		PromptFor int64          `json:"prompt_eval_duration"`
		Eval      int            `json:"eval_count"`
		EvalFor   int64          `json:"eval_duration"`
	}
	ollamaMessage struct {
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
	ollamaModels struct {
		Models []struct {
			Name    string `json:"name"`
			Model   string `json:"model"`
			Size    uint64 `json:"size"`
			Digest  string `json:"digest"`
			Expires string `json:"expires_at"`
		} `json:"models"`
	}
	ollamaShown struct {
		Template     string         `json:"template"`
		Info         map[string]any `json:"model_info"`
		Capabilities []string       `json:"capabilities"`
	}
	ollamaVectors struct {
		Model      string      `json:"model"`
		Embeddings [][]float32 `json:"embeddings"`
		Prompt     int         `json:"prompt_eval_count"`
	}
	ollamaVector struct {
		Embedding []float32 `json:"embedding"`
	}
	ollamaVersion struct {
		Version string `json:"version"`
		Quern   string `json:"quern"`
	}
	ollamaError struct {
		Error string `json:"error"`
	}
	anthropicError struct {
		Type  string `json:"type"`
		Error struct {
			Type    string `json:"type"`
			Message string `json:"message"`
		} `json:"error"`
		Request string `json:"request_id"`
	}
	renderedPrompt struct {
		Prompt string `json:"prompt"`
	}
)
