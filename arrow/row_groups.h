// The batches of a Parquet file's row groups.
#ifndef WEIR_ROW_GROUPS_H
#define WEIR_ROW_GROUPS_H

#include <memory>
#include <vector>

#include <arrow/record_batch.h>
#include <parquet/arrow/reader.h>
#include <parquet/file_reader.h>

constexpr int64_t kBatchRows = 16384;

/// The columns of texts that every row group has as indexes of a dictionary: they are read as such.
std::vector<int> LeavesWithDictionaries(const parquet::FileMetaData &file);

/// A column chunk of indexes (row_groups.cc).
class IndexColumn;

/// Reads row groups one after the other: what is read ahead of a group is in memory only while the
/// group is decoded. All batches of a group share the dictionaries of their texts, which are the
/// file's own: Arrow's reader would make a dictionary of each batch.
class RowGroups : public arrow::RecordBatchReader
{
  public:
	/// leaves: the columns to read, of which some of `coded` have only indexes. Without prefetching
	/// by the file reader.
	static arrow::Result<std::shared_ptr<arrow::RecordBatchReader>> Open(std::shared_ptr<parquet::arrow::FileReader> file,
	                                                                     std::vector<int> groups, std::vector<int> leaves,
	                                                                     const std::vector<int> &coded);
	RowGroups();
	~RowGroups() override;
	std::shared_ptr<arrow::Schema> schema() const override { return schema_; }
	arrow::Status ReadNext(std::shared_ptr<arrow::RecordBatch> *out) override;

  private:
	arrow::Status OpenGroup(int group);
	arrow::Status Next(std::shared_ptr<arrow::RecordBatch> *out);

	std::shared_ptr<parquet::arrow::FileReader> file_;
	std::vector<int> groups_, leaves_;
	std::vector<int> leaf_of_; // of each field, if it is read as indexes here; -1: Arrow reads it
	std::vector<int> others_;  // leaves that Arrow reads
	std::shared_ptr<arrow::Schema> schema_;
	size_t next_ = 0;
	int64_t left_ = 0; // rows of the group before next_
	std::shared_ptr<parquet::RowGroupReader> group_;
	std::vector<std::unique_ptr<IndexColumn>> columns_; // of each field that is read here
	std::unique_ptr<arrow::RecordBatchReader> batches_; // of the other fields; may be null
};

#endif
