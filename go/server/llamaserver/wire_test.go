package llamaserver_test

import "encoding/json"

// What tests read answers into: the names of fields are those of the API's documents, not of the structs that write
// them, so that a wrong name in those fails.
type (
	content struct {
		Content string `json:"content"`
	}
	tokens struct {
		Tokens []any `json:"tokens"`
	}

	props struct {
		Defaults   slot   `json:"default_generation_settings"`
		TotalSlots int    `json:"total_slots"`
		Alias      string `json:"model_alias"`
		Path       string `json:"model_path"`
		Template   string `json:"chat_template"`
		BOS        string `json:"bos_token"`
		EOS        string `json:"eos_token"`
		MCP        bool   `json:"endpoint_mcp"`
		Build      string `json:"build_info"`
	}
	slot struct {
		ID         int            `json:"id"`
		Model      string         `json:"model"`
		Task       int64          `json:"id_task"`
		Ctx        int            `json:"n_ctx"`
		Processing bool           `json:"is_processing"`
		Prompt     int            `json:"n_prompt_tokens"`
		Processed  int            `json:"n_prompt_tokens_processed"`
		Cached     int            `json:"n_prompt_tokens_cache"`
		Params     map[string]any `json:"params"`
		Next       []struct {
			Has     bool `json:"has_next_token"`
			HasLine bool `json:"has_new_line"`
			Remain  int  `json:"n_remain"`
			Decoded int  `json:"n_decoded"`
		} `json:"next_token"`
	}

	decisions struct {
		ID        string `json:"id"`
		Object    string `json:"object"`
		Model     string `json:"model"`
		Decisions []struct {
			Name    string `json:"name"`
			Choice  string `json:"choice"`
			Index   int    `json:"index"`
			Choices []struct {
				Text        string   `json:"text"`
				Probability float64  `json:"probability"`
				Logprob     float64  `json:"logprob"`
				Prior       *float64 `json:"prior_logprob"`
				Tokens      int      `json:"tokens"`
			} `json:"choices"`
		} `json:"decisions"`
		Usage struct {
			PromptTokens int `json:"prompt_tokens"`
			Details      struct {
				Cached int `json:"cached_tokens"`
			} `json:"prompt_tokens_details"`
		} `json:"usage"`
	}

	toolList struct {
		Data []struct {
			Type     string          `json:"type"`
			Server   string          `json:"server"`
			Function json.RawMessage `json:"function"`
		} `json:"data"`
	}

	memoryUse struct {
		Limit     uint64       `json:"limit"`
		LimitedBy string       `json:"limited_by"`
		Used      uint64       `json:"used"`
		Free      uint64       `json:"free"`
		Peak      uint64       `json:"peak"`
		Pressure  string       `json:"pressure"`
		Resident  uint64       `json:"resident"`
		Anonymous uint64       `json:"anonymous"`
		Most      uint64       `json:"resident_peak"`
		Purposes  []purposeUse `json:"purposes"`
		Models    []struct {
			ID    string `json:"id"`
			State string `json:"state"`
			KV    struct {
				Bytes  uint64 `json:"bytes"`
				Most   uint64 `json:"most"`
				Used   uint64 `json:"used"`
				Cached uint64 `json:"cached"`
			} `json:"kv"`
		} `json:"models"`
		CPU struct {
			Threads int `json:"threads"`
		} `json:"cpu"`
	}
	purposeUse struct {
		Purpose string `json:"purpose"`
		Bytes   uint64 `json:"bytes"`
	}
)
