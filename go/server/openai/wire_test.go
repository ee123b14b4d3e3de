package openai_test

import "encoding/json"

// What tests read answers into: the names of fields are those of the APIs' documents, not of the structs that write
// them, so that a wrong name in those fails.

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
	chatProbs struct {
		Content []tokenProb `json:"content"`
	}
	tokenProb struct {
		Token   string      `json:"token"`
		Bytes   []int       `json:"bytes"`
		Logprob float64     `json:"logprob"`
		Top     []tokenProb `json:"top_logprobs"`
	}
	textProbs struct {
		Content       []tokenProb           `json:"content"`
		Tokens        []string              `json:"tokens"`
		TokenLogprobs []*float64            `json:"token_logprobs"`
		TopLogprobs   []*map[string]float64 `json:"top_logprobs"`
		TextOffset    []int                 `json:"text_offset"`
	}
	promptProgress struct {
		Total     int `json:"total"`
		Cache     int `json:"cache"`
		Processed int `json:"processed"`
	}
	cancellation struct {
		ID        string `json:"id"`
		Object    string `json:"object"`
		Cancelled bool   `json:"cancelled"`
	}
	deletion struct {
		ID      string `json:"id"`
		Object  string `json:"object"`
		Deleted bool   `json:"deleted"`
	}

	renderedPrompt struct {
		Prompt string `json:"prompt"`
	}
)
