package fleet_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"strings"

	"github.com/quern-llm/quern/go/demo"
	"github.com/quern-llm/quern/go/fleet"
	"github.com/quern-llm/quern/go/launch"
)

// A program serves a model, asks it once, and ends.
func Example() {
	ctx, stop := context.WithCancel(context.Background())
	err := fleet.Serve(ctx, fleet.Config{
		Models: []fleet.Model{{Path: demo.Name, Settings: fleet.Settings{Launch: launch.Settings{Ctx: 256}}}},
		Device: launch.DeviceSettings{Threads: 1},
		Ready: func(at []net.Addr) {
			defer stop()
			ask := strings.NewReader(`{"prompt": "Once upon a time", "max_tokens": 12, "temperature": 0}`)
			r, err := http.Post("http://"+at[0].String()+"/v1/completions", "application/json", ask)
			if err != nil {
				log.Fatal(err)
			}
			defer r.Body.Close()
			answer, err := io.ReadAll(r.Body)
			if err != nil {
				log.Fatal(err)
			}
			fmt.Println(r.Status, strings.Contains(string(answer), `"text":", there was a little girl named Lily.`))
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output: 200 OK true
}
