package main

import (
	"fmt"
	"path/filepath"
	"runtime/debug"

	"github.com/CycloneDX/cyclonedx-go"
)

// data is what a program holds of others beside modules.
type data struct{ name, url, about, folder string }

// dataOf are the data in programs, by the paths of these. Folders hold them with their licences, seen from the top of the repository.
var dataOf = map[string][]data{
	"loaderd/cmd/loaderd": {{"openai/tiktoken vocabularies", "pkg:github/openai/tiktoken", "r50k_base, cl100k_base and o200k_base", "tokenizer/internal/published"}},
}

// embedded lists the data in a program.
func embedded(info *debug.BuildInfo) (listed []cyclonedx.Component, err error) {
	for _, d := range dataOf[info.Path] {
		licence, err := licenceOf(filepath.FromSlash(d.folder))
		if err != nil {
			return nil, fmt.Errorf("look for the licence of %s: %w", d.name, err)
		}
		concluded := cyclonedx.LicenseAcknowledgementConcluded
		listed = append(listed, cyclonedx.Component{BOMRef: d.name, Type: cyclonedx.ComponentTypeData, Name: d.name, PackageURL: d.url, Description: d.about,
			Licenses: &cyclonedx.Licenses{{Expression: licence, Acknowledgement: &concluded}}})
	}
	return listed, nil
}
