package main

import "testing"

func TestPackageOf(t *testing.T) {
	for symbol, want := range map[string]string{
		"main.main": "main",
		"github.com/nats-io/nats-server/v2/server.(*Server).Start":      "github.com/nats-io/nats-server/v2/server",
		"type:*loaderd/loader.Run":                                      "loaderd/loader",
		"slices.SortFunc[go.shape.struct { loaderd/loader.place int }]": "slices",
		"gopkg.in/yaml%2ev3.init":                                       "gopkg.in/yaml%2ev3",
	} {
		if have := packageOf(symbol); have != want {
			t.Errorf("%s is of %s, want %s", symbol, have, want)
		}
	}
}
