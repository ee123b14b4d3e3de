package server

import (
	"net/http"

	"github.com/gin-gonic/gin"
)

// absent are routes that other servers have for what this one does not do. Their clients are told why.
var absent = []struct {
	methods, paths []string
	why            string
}{
	{
		[]string{http.MethodPost}, []string{"/v1/audio/speech"},
		"no model here speaks; /v1/audio/transcriptions writes down what is said",
	}, {
		[]string{http.MethodPost}, []string{"/v1/images/generations", "/v1/images/edits"},
		"images are not supported; send text, to /v1/chat/completions for instance",
	}, {
		[]string{http.MethodPost}, []string{"/v2/models/*id"},
		"models here take no tensors; send text, to /v1/chat/completions or /v1/embeddings for instance",
	}, {
		[]string{http.MethodPost}, []string{"/api/push"},
		"models are not uploaded from here",
	},
}

func (s *Server) registerAbsent(r gin.IRoutes) {
	for _, a := range absent {
		for _, path := range a.paths {
			for _, method := range a.methods {
				handle(r, method, path, s.Missing(a.why))
			}
		}
	}
}
