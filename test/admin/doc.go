// Package admin tests the dashboard in a browser, and the answers of the admin
// API against the schemas in openapi.json.
package admin
