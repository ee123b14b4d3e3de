package fake

// What tests of several packages read answers into: the names of fields are those of the API's documents, not of the
// structs that write them, so that a wrong name in those fails.
type (
	// A TextAnswer is a completion.
	TextAnswer struct {
		Model   string `json:"model"`
		Choices []struct {
			Text string `json:"text"`
		} `json:"choices"`
	}

	// A ModelList is GET /models, in OpenAI's form and in Ollama's.
	ModelList struct {
		Object string       `json:"object"`
		Data   []ModelEntry `json:"data"`
		Models []struct {
			Name    string `json:"name"`
			Details struct {
				Family        string `json:"family"`
				ParameterSize string `json:"parameter_size"`
				Quantization  string `json:"quantization_level"`
			} `json:"details"`
		} `json:"models"`
	}
	// A ModelEntry is a model of it.
	ModelEntry struct {
		ID      string   `json:"id"`
		Aliases []string `json:"aliases"`
		Tags    []string `json:"tags"`
		Object  string   `json:"object"`
		Created int64    `json:"created"`
		OwnedBy string   `json:"owned_by"`
		Path    string   `json:"path"`
		Meta    *struct {
			NVocab int `json:"n_vocab"`
			NCtx   int `json:"n_ctx"`
		} `json:"meta"`
		Status struct {
			Value  string   `json:"value"`
			Args   []string `json:"args"`
			Failed bool     `json:"failed"`
		} `json:"status"`
	}
)
