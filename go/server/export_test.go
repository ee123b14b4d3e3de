package server

import "github.com/quern-llm/quern/go/server/answer"

// Routes returns the routes of a server.
func (s *Server) Routes() []answer.Route { return s.routes }

// OpenPath is a path with its parameters in OpenAPI's syntax.
var OpenPath = openPath

// Absent are the routes of other servers that this one does not have, and why.
func Absent() (all []AbsentRoute) {
	for _, a := range absent {
		all = append(all, AbsentRoute{a.methods, a.paths, a.why})
	}
	return all
}

type AbsentRoute struct {
	Methods, Paths []string
	Why            string
}
