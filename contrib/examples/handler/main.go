// Handler has a model inside an existing server, behind its own mux and authentication: handler [-listen ADDRESS] [MODEL].
//
//	curl -u anna:secret localhost:8080/llm/v1/chat/completions -d '{"messages": [{"role": "user", "content": "Hi"}]}'
package main

import (
	"context"
	"crypto/subtle"
	"errors"
	"flag"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"time"

	"github.com/quern-llm/quern"
	"github.com/quern-llm/quern/go/httpapi"
)

// users are those who may ask, with their passwords.
var users = map[string]string{"anna": "secret", "bert": "hidden"}

type userKey struct{}

// authenticated lets known users pass, and says who they are in the context.
func authenticated(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name, given, _ := r.BasicAuth()
		want, ok := users[name]
		if !ok || subtle.ConstantTimeCompare([]byte(given), []byte(want)) != 1 {
			w.Header().Set("WWW-Authenticate", `Basic realm="models"`)
			http.Error(w, "who are you?", http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), userKey{}, name)))
	})
}

func main() {
	listen := flag.String("listen", "127.0.0.1:8080", "the address of the server")
	flag.Parse()
	name := quern.Demo
	if flag.NArg() > 0 {
		name = flag.Arg(0)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *listen, name); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, listen, name string) error {
	m, err := quern.Open(ctx, name, quern.WithContextLength(1024))
	if err != nil {
		return err
	}
	defer m.Close() // last: after the handler, which is closed after the server
	api, err := httpapi.New(httpapi.Config{
		Models: []httpapi.Model{{Name: "mine", Model: m}},
		Caller: func(r *http.Request) httpapi.Caller { // users have equal shares of the machine
			user, _ := r.Context().Value(userKey{}).(string)
			return httpapi.Caller{Name: user}
		},
	})
	if err != nil {
		return err
	}
	defer api.Close()

	mux := http.NewServeMux()
	mux.Handle("/llm/", authenticated(http.StripPrefix("/llm", api)))
	mux.HandleFunc("GET /title", func(w http.ResponseWriter, r *http.Request) { // the same model, asked by the program
		result, err := m.Complete(r.Context(), quern.Request{Prompt: "Once upon a time", MaxTokens: 10})
		if err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, result.Text())
	})
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	at, err := net.Listen("tcp", listen)
	if err != nil {
		return err
	}
	fmt.Printf("http://%s/llm\n", at.Addr())
	served := make(chan error, 1)
	go func() { served <- server.Serve(at) }()
	select {
	case err := <-served:
		return err
	case <-ctx.Done():
	}
	last, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := server.Shutdown(last); err != nil && !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return nil
}
