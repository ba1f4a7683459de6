#include <gtest/gtest.h>

#include <string>

#include "npu/ir.h"
#include "npu/test_graph.h"

namespace thermocline::npu {
namespace {

TEST(IrWriterTest, TheWholeTextOfASmallGraph) {
  Graph graph;
  const Value x = graph.Parameter("x", {Element::kF32, {1, 2}});
  graph.Output(graph.Softmax(graph.Binary(Op::kAdd, x, graph.Scalar(1)), -1),
               "y");
  graph.weight_group = -1;
  EXPECT_EQ(WriteIr(graph),
            R"(<?xml version="1.0"?>
<net name="thermocline" version="11">
<layers>
<layer id="0" name="x" type="Parameter" version="opset1"><data element_type="f32" shape="1,2"/><output><port id="0" precision="FP32" names="x"><dim>1</dim><dim>2</dim></port></output></layer>
<layer id="1" name="n1" type="Const" version="opset1"><data element_type="f32" shape="1" offset="0" size="4"/><output><port id="0" precision="FP32"><dim>1</dim></port></output></layer>
<layer id="2" name="n2" type="Add" version="opset1"><data auto_broadcast="numpy"/><input><port id="0" precision="FP32"><dim>1</dim><dim>2</dim></port><port id="1" precision="FP32"><dim>1</dim></port></input><output><port id="2" precision="FP32"><dim>1</dim><dim>2</dim></port></output></layer>
<layer id="3" name="n3" type="SoftMax" version="opset8"><data axis="-1"/><input><port id="0" precision="FP32"><dim>1</dim><dim>2</dim></port></input><output><port id="1" precision="FP32" names="y"><dim>1</dim><dim>2</dim></port></output></layer>
<layer id="4" name="y" type="Result" version="opset1"><input><port id="0" precision="FP32"><dim>1</dim><dim>2</dim></port></input></layer>
</layers>
<edges>
<edge from-layer="0" from-port="0" to-layer="2" to-port="0"/>
<edge from-layer="1" from-port="0" to-layer="2" to-port="1"/>
<edge from-layer="2" from-port="2" to-layer="3" to-port="0"/>
<edge from-layer="3" from-port="1" to-layer="4" to-port="0"/>
</edges>
<rt_info><nncf><weight_compression><mode value="int8_sym"/><group_size value="-1"/></weight_compression></nncf></rt_info>
</net>
)");
}

TEST(IrWriterTest, TheModeIsThatOfTheNarrowestWeights) {
  struct Case {
    std::vector<Element> elements;
    const char* mode;
  };
  const std::vector<Case> cases = {
      {{Element::kI8}, "int8_sym"},
      {{Element::kI8, Element::kU8}, "int8_asym"},
      {{Element::kI8, Element::kI4}, "int4_sym"},
      {{Element::kI4, Element::kU4}, "int4_asym"},
  };
  for (const Case& a_case : cases) {
    Graph graph;
    graph.weight_group = 128;
    for (const Element element : a_case.elements) {
      Numbers(graph, {element, {2}}, {1, 2});
    }
    EXPECT_NE(
        WriteIr(graph).find(fmt::format(
            "<mode value=\"{}\"/><group_size value=\"128\"/>", a_case.mode)),
        std::string::npos);
  }
}

TEST(IrWriterTest, EveryTensorHasOneName) {
  Graph graph;
  const Value x = graph.Parameter("<x>", {Element::kF32, {2}});
  graph.Output(x, "a,b");
  const Value y = graph.Unary(Op::kRelu, x);
  graph.Output(y, "c");
  graph.Output(y, "d");
  const std::string xml = WriteIr(graph);
  for (const char* names : {" names=\"&lt;x&gt;\"", " names=\"a\\,b\"",
                            " names=\"c\"", " names=\"d\""}) {
    EXPECT_NE(xml.find(names), std::string::npos) << names;
  }
}

}  // namespace
}  // namespace thermocline::npu
