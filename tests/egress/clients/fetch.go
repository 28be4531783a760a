// SPDX-License-Identifier: Apache-2.0
// fetch URL: the body on standard output; status 1 and the body for anything but 2xx.
package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
)

func main() {
	r, err := http.Get(os.Args[1])
	if err != nil {
		fmt.Println(err)
		os.Exit(2)
	}
	io.Copy(os.Stdout, r.Body)
	if r.StatusCode/100 != 2 {
		os.Exit(1)
	}
}
