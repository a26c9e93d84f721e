package main

import (
	"fmt"
	"io"
	"os"

	"github.com/CycloneDX/cyclonedx-go"
)

// readBill reads a bill of materials, CycloneDX as JSON.
func readBill(path string) (*cyclonedx.BOM, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	bill := new(cyclonedx.BOM)
	if err := cyclonedx.NewBOMDecoder(f, cyclonedx.BOMFileFormatJSON).Decode(bill); err != nil {
		return nil, fmt.Errorf("read bill of materials %s: %w", path, err)
	}
	if len(components(bill)) == 0 {
		return nil, fmt.Errorf("bill of materials %s lists no components", path)
	}
	return bill, nil
}

func write(w io.Writer, bill *cyclonedx.BOM) error {
	return cyclonedx.NewBOMEncoder(w, cyclonedx.BOMFileFormatJSON).SetPretty(true).EncodeVersion(bill, cyclonedx.SpecVersion1_6)
}

func components(bill *cyclonedx.BOM) []cyclonedx.Component {
	if bill.Components == nil {
		return nil
	}
	return *bill.Components
}
